//! Denials by a handler, which are answered in the form of its layer.

use http::{HeaderValue, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::ManualClock,
    id::IdFormat,
    layer::Assessment,
    limit::LimitName,
    limiter::{LimitHandle, NotAdmitted},
    response::PlainText,
};
use tower::{Layer, ServiceExt, service_fn};

use crate::{
    refusals::{is_reference, listen},
    support::{
        as_grpc, assessed, from_ip, send,
        store::{Fate, Store},
    },
};

const IP: &str = "203.0.113.7";

/// Limits for addresses, and one for accounts that only handlers charge.
fn limits() -> Limits {
    Limits::builder()
        .limit("requests", Limit::per_second(10))
        .limit(
            LimitName::new("exports", 7, IdFormat::RegId).description("exports"),
            Limit::per_hour(60).burst(50),
        )
        .build()
        .unwrap()
}

fn limiter() -> Limiter {
    Limiter::new(limits(), MemoryBackend::new()).with_clock(ManualClock::default())
}

fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("requests", ClientIp::peer()))
        .extensions(true)
}

/// A handle whose bucket of account 5 is used up.
async fn exports(limiter: &Limiter) -> LimitHandle {
    let exports = limiter.limit("exports").unwrap().cost(50);
    exports.admit("5").await.unwrap();
    exports
}

async fn denied(limiter: &Limiter) -> NotAdmitted {
    exports(limiter).await.admit("5").await.unwrap_err()
}

fn head() -> Parts {
    from_ip(IP).into_parts().0
}

/// Returns the answer of the handler's layer to a denial by the handler.
async fn answer(
    limiter: &Limiter,
    request: &Parts,
    denied: &NotAdmitted,
) -> Response<bytes::Bytes> {
    let assessment = assessed(&layer(limiter), from_ip(IP)).await.unwrap();
    assessment.refuse(request, denied)
}

/// Removes the reference from the document of a refusal, and returns both.
fn read(body: &[u8]) -> (Value, String) {
    let mut document: Value = serde_json::from_slice(body).unwrap();
    let reference = document.as_object_mut().unwrap().remove("refusal-id");
    let reference = reference.unwrap().as_str().unwrap().to_owned();
    (document, reference)
}

#[tokio::test]
async fn own_denial_is_answered_and_logged_as_the_layer_does_its_own() {
    let (log, _guard) = listen();
    let limiter = limiter();
    let denied = denied(&limiter).await;
    let ours = answer(&limiter, &head(), &denied).await;
    let (document, reference) = read(ours.body());
    assert!(is_reference(&reference), "{reference}");
    let expected = format!("refusal_id={reference} reason=\"over_limit\" limit=\"exports\"");
    assert_eq!(log.count(&expected), 1, "{log:?}");
    // A layer with a rule for the same bucket.
    let account = |_: &Parts| Some("5");
    let by_rule =
        RateLimitLayer::with_limiter(limiter).rule(Rule::new("exports", account).cost(50));
    let (head, body) = send(&by_rule, IP).await.into_parts();
    assert_eq!(
        (ours.status(), ours.headers()),
        (head.status, &head.headers)
    );
    let theirs = body.collect().await.unwrap().to_bytes();
    assert_eq!(document, read(&theirs).0);
    assert_eq!(ours.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ours.headers()["retry-after"], "3000");
    assert_eq!(ours.headers()["ratelimit"], "\"exports\";r=0;t=60");
    let detail =
        "too many exports (60 per hour, 50 at once; the cost is 50) from 5: retry in 50 minutes";
    assert_eq!(document["detail"], json!(detail));
}

#[tokio::test]
async fn own_denial_of_a_call_of_grpc_is_a_status() {
    let limiter = limiter();
    let denied = denied(&limiter).await;
    let call = as_grpc(from_ip(IP), "application/grpc").into_parts().0;
    let response = answer(&limiter, &call, &denied).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["grpc-status"], "8");
    assert_eq!(response.headers()[header::RETRY_AFTER], "3000");
}

#[tokio::test]
async fn undecided_client_is_answered_by_503_and_an_invalid_id_by_400() {
    let failing = Limiter::new(limits(), Store::new(Fate::Fails));
    let exports = failing.limit("exports").unwrap();
    let undecided = exports.admit("5").await.unwrap_err();
    assert_eq!(
        (undecided.decision(), undecided.retry_after()),
        (None, None)
    );
    let limiter = limiter();
    let response = answer(&limiter, &head(), &undecided).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        response.headers()[header::RETRY_AFTER],
        HeaderValue::from(1)
    );
    let invalid = exports.admit("five").await.unwrap_err();
    let response = answer(&limiter, &head(), &invalid).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn permits_are_not_admitted_because_nobody_would_give_them_back() {
    let limits = Limits::builder().limit("calls", Limit::concurrent(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let calls = limiter.limit("calls").unwrap();
    let error = calls.admit("alice").await.unwrap_err().to_string();
    assert!(error.ends_with("use `enter`"), "{error}");
    assert!(calls.enter("alice").await.unwrap().is_ok());
}

#[tokio::test]
async fn own_denial_in_a_nested_layer_is_answered_in_the_format_of_the_innermost() {
    let limiter = limiter();
    let denied = denied(&limiter).await;
    let handler = service_fn(|request: http::Request<Full<bytes::Bytes>>| {
        let (head, _) = request.into_parts();
        let assessment: &Assessment = head.extensions.get().unwrap();
        let response = assessment.refuse::<Full<_>>(&head, &denied);
        std::future::ready(Ok::<_, std::convert::Infallible>(response))
    });
    let inner = RateLimitLayer::new(Limit::per_second(9), ClientIp::peer())
        .respond_with(PlainText)
        .extensions(true);
    let service = layer(&limiter).layer(inner.layer(handler));
    let response = service.oneshot(from_ip(IP)).await.unwrap();
    assert_eq!(
        response.headers()["content-type"],
        "text/plain; charset=utf-8"
    );
}

#[cfg(feature = "tonic")]
#[tokio::test]
async fn own_denial_is_a_status_of_tonic() {
    use tonic_types::StatusExt;

    let status = tonic::Status::from(denied(&limiter()).await);
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    let wait = status.get_details_retry_info().unwrap().retry_delay;
    assert_eq!(wait, Some(std::time::Duration::from_secs(3000)));
}
