//! Decisions of handlers, whose responses are those of a layer.

use http::{Request, request::Parts};
use http_body_util::{BodyExt, Full};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    backend::Backend,
    clock::ManualClock,
    id::{Id, IdFormat},
    key::HeaderId,
    limit::LimitName,
    response::{DecisionResponder, Headers, PlainText, Registry},
};
use tower::{Layer, ServiceExt};

use crate::support::{
    Hello, as_grpc,
    store::{Fate, Store},
};

fn limiter(backend: impl Backend) -> Limiter {
    let name = LimitName::new("exports", 7, IdFormat::RegId)
        .description("exports")
        .docs("https://example.com/limits");
    let limits = Limits::builder()
        .limit(name, Limit::per_hour(2))
        .override_for("exports", "13", Limit::BLOCKED);
    Limiter::new(limits.build().unwrap(), backend).with_clock(ManualClock::default())
}

fn request(id: &str) -> Request<Full<bytes::Bytes>> {
    let request = Request::builder().header("x-account", id);
    request.body(Full::default()).unwrap()
}

fn parts(request: Request<Full<bytes::Bytes>>) -> Parts {
    request.into_parts().0
}

/// The status, the header fields and the body.
type Told = (u16, Vec<String>, String);

fn told(head: &http::response::Parts, body: &[u8]) -> Told {
    let fields = head.headers.iter();
    let mut fields: Vec<_> = fields
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    fields.sort();
    (
        head.status.as_u16(),
        fields,
        body.escape_ascii().to_string(),
    )
}

async fn by_layer(layer: &RateLimitLayer, request: Request<Full<bytes::Bytes>>) -> Told {
    let response = layer.layer(Hello).oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    told(&head, &body.collect().await.unwrap().to_bytes())
}

async fn by_handler(responder: &DecisionResponder, limiter: &Limiter, request: &Parts) -> Told {
    let exports = limiter.limit("exports").unwrap();
    let id = request.headers["x-account"].to_str().unwrap();
    let response = match exports.spend(id).await {
        Err(error) => responder.failed(request, &exports, &error),
        Ok(decision) => {
            let refusal = responder.refusal(request, &exports, Id::from(id), &decision);
            refusal.unwrap_or_else(|| {
                let mut passed = http::Response::new("hello".into());
                responder.put_fields(&exports, &decision, passed.headers_mut());
                passed
            })
        }
    };
    let (head, body) = response.into_parts();
    told(&head, &body)
}

#[tokio::test]
async fn response_is_that_of_the_layer() {
    let plain = |limiter| {
        let rule = Rule::new("exports", HeaderId::new("x-account").shown());
        RateLimitLayer::with_limiter(limiter).rule(rule)
    };
    let secret = |limiter| {
        let rule = Rule::new("exports", HeaderId::new("x-account"));
        RateLimitLayer::with_limiter(limiter).rule(rule)
    };
    let kinds: [&dyn Fn(Limiter) -> RateLimitLayer; 5] = [
        &plain,
        &secret,
        &|limiter| plain(limiter).respond_with(PlainText),
        &|limiter| {
            plain(limiter)
                .respond_with(Registry)
                .headers(Headers::XRateLimitDelta)
        },
        &|limiter| plain(limiter).headers(Headers::None),
    ];
    for (i, kind) in kinds.into_iter().enumerate() {
        for is_grpc in [false, true] {
            // Each has its own buckets.
            let [layer, other] = [0; 2].map(|_| kind(limiter(MemoryBackend::new())));
            let responder = layer.responder();
            for id in ["7", "7", "7", "13", "8"] {
                let ask = || match is_grpc {
                    true => as_grpc(request(id), "application/grpc"),
                    false => request(id),
                };
                let expected = by_layer(&layer, ask()).await;
                let response = by_handler(&responder, other.limiter(), &parts(ask())).await;
                assert_eq!(response, expected, "{i} {is_grpc} {id}");
            }
        }
    }
}

#[tokio::test]
async fn errors_have_the_statuses_of_a_layer() {
    let responder = DecisionResponder::default();
    let memory = limiter(MemoryBackend::new());
    let invalid = by_handler(&responder, &memory, &parts(request("seven"))).await;
    assert_eq!(invalid.0, 400);
    assert!(
        invalid.2.contains("regId") && !invalid.2.contains("seven"),
        "{}",
        invalid.2
    );
    let away = by_handler(
        &responder,
        &limiter(Store::new(Fate::Away)),
        &parts(request("7")),
    )
    .await;
    assert_eq!(away.0, 503);
    let exports = memory.limit("exports").unwrap().cost(3);
    let error = exports.spend("7").await.unwrap_err();
    let costly = responder.failed(&parts(request("7")), &exports, &error);
    assert_eq!(costly.status(), 413);
    let passed = exports.cost(1).spend("7").await.unwrap();
    let refusal = responder.refusal(&parts(request("7")), &exports, "7", &passed);
    assert!(refusal.is_none());
}
