//! The layer in stacks: around services of all kinds, above and below other layers, nested.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, request::Parts};
use http_body_util::{Empty, Full};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    backend::{Backend, BackendError, async_trait},
    clock::{ManualClock, Timestamp},
    decision::Outcome,
    key::{Everyone, HeaderId},
    layer::Assessment,
    limit::LimitName,
    transaction::{Batch, Mode},
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{
    Hello, bucket, from_ip, layer, limiter, limiter_of,
    patience::{Gates, Slow},
    send,
    store::{Fate, Store},
};

#[tokio::test]
async fn services_of_one_layer_share_their_buckets() {
    let layer = layer(&limiter(&ManualClock::default()));
    let (mut one, mut other) = (layer.layer(Hello), layer.clone().layer(Hello));
    for i in 0..21 {
        let service = if i % 2 == 0 { &mut one } else { &mut other };
        let status = service.call(from_ip("203.0.113.7")).await.unwrap().status();
        assert_eq!(status == StatusCode::OK, i < 20, "request {i}");
    }
}

#[tokio::test]
async fn denied_request_does_not_reach_the_service() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_minute(1));
    let calls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&calls);
    let mut service = layer(&limiter).layer(service_fn(move |_: Request<Full<Bytes>>| {
        *counted.lock().unwrap() += 1;
        async { Ok::<_, std::io::Error>(Response::new(Empty::<Bytes>::new())) }
    }));
    for _ in 0..3 {
        service.call(from_ip("203.0.113.7")).await.unwrap();
    }
    assert_eq!(*calls.lock().unwrap(), 1);
}

#[tokio::test]
async fn errors_of_the_service_pass_through() {
    let service = service_fn(|_: Request<Full<Bytes>>| async {
        Err::<Response<Empty<Bytes>>, _>(std::io::Error::other("broken"))
    });
    let service = layer(&limiter(&ManualClock::default())).layer(service);
    let error = service.oneshot(from_ip("203.0.113.7")).await.unwrap_err();
    assert_eq!(error.to_string(), "broken");
}

#[test]
fn rules_that_do_not_fit_are_errors() {
    let layer = || RateLimitLayer::with_limiter(limiter(&ManualClock::default()));
    let error = |rule| layer().try_rule(rule).unwrap_err().to_string();
    let above = error(Rule::new("requests", Everyone).cost(21));
    assert!(
        above.starts_with("cost 21 is above the burst of limit `requests`, 20"),
        "{above}"
    );
    assert!(
        layer()
            .try_rule(Rule::new("requests", Everyone).cost(21).mode(Mode::Debit))
            .is_ok()
    );
    let sum = layer()
        .rule(Rule::new("requests", Everyone).cost(11))
        .try_rule(Rule::new("requests", ClientIp::peer()).cost(10));
    let sum = sum.unwrap_err().to_string();
    assert!(
        sum.starts_with("rules of one limit can meet in one bucket"),
        "{sum}"
    );
    let mixed = layer()
        .rule(Rule::new("requests", Everyone))
        .try_rule(Rule::new("requests", ClientIp::peer()).mode(Mode::CheckOnly));
    assert!(
        mixed
            .unwrap_err()
            .to_string()
            .starts_with("two rules of limit `requests`")
    );
}

#[tokio::test]
async fn nested_layers_add_to_headers_and_extensions() {
    let limits = Limits::builder()
        .limit("outer", Limit::per_minute(10))
        .limit("inner", Limit::per_minute(20))
        .build()
        .unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default());
    let of = |limit: &str| {
        RateLimitLayer::with_limiter(limiter.clone())
            .rule(Rule::new(limit, Everyone))
            .extensions(true)
            .response_extension(true)
    };
    let names = |assessment: &Assessment| -> Vec<String> {
        assessment
            .iter()
            .map(|assessed| assessed.limit.to_string())
            .collect()
    };
    let handler = service_fn(move |request: Request<Full<Bytes>>| {
        assert_eq!(
            names(request.extensions().get().unwrap()),
            ["outer", "inner"]
        );
        async { Ok::<_, std::io::Error>(Response::new(Empty::<Bytes>::new())) }
    });
    let service = of("outer").layer(of("inner").layer(handler));
    let response = service.oneshot(from_ip("203.0.113.7")).await.unwrap();
    assert_eq!(
        names(response.extensions().get().unwrap()),
        ["outer", "inner"]
    );
    let fields: Vec<_> = response.headers().get_all("ratelimit").iter().collect();
    assert_eq!(fields, ["\"inner\";r=19;t=3", "\"outer\";r=9;t=6"]);
    let policies = response.headers().get_all("ratelimit-policy");
    assert_eq!(policies.iter().count(), 2);
}

#[tokio::test]
async fn same_layer_twice_charges_twice() {
    let layer = layer(&limiter(&ManualClock::default()));
    let service = layer.layer(layer.layer(Hello));
    let response = service.oneshot(from_ip("203.0.113.7")).await.unwrap();
    let fields: Vec<_> = response.headers().get_all("ratelimit").iter().collect();
    assert_eq!(fields, ["\"requests\";r=18;t=1", "\"requests\";r=19;t=1"]);
}

#[tokio::test]
async fn denial_carries_its_assessment() {
    let layer = layer(&limiter_of(&ManualClock::default(), Limit::per_minute(1)));
    let layer = layer.response_extension(true);
    send(&layer, "203.0.113.7").await;
    let denied = send(&layer, "203.0.113.7").await;
    let assessment = denied.extensions().get::<Assessment>().unwrap();
    let assessed = assessment.iter().next().unwrap();
    assert_eq!(
        (&*assessed.limit, assessed.id.as_str()),
        ("requests", "203.0.113.7")
    );
    assert!(!assessed.decision.allowed());
}

#[tokio::test]
async fn assessment_is_where_it_is_asked_for() {
    let layer = || layer(&limiter_of(&ManualClock::default(), Limit::per_minute(1)));
    for (layer, on_request, on_response) in [
        (layer(), false, false),
        (layer().extensions(true), true, false),
        (layer().response_extension(true), false, true),
        (
            layer().extensions(true).response_extension(true),
            true,
            true,
        ),
    ] {
        let handler = service_fn(move |request: Request<Full<Bytes>>| {
            let assessment = request.extensions().get::<Assessment>();
            assert_eq!(assessment.is_some(), on_request);
            async { Ok::<_, std::io::Error>(Response::new(Empty::<Bytes>::new())) }
        });
        let service = layer.layer(handler);
        for expected in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
            let response = service
                .clone()
                .oneshot(from_ip("203.0.113.7"))
                .await
                .unwrap();
            assert_eq!(response.status(), expected);
            let assessment = response.extensions().get::<Assessment>();
            assert_eq!(assessment.is_some(), on_response);
        }
    }
}

#[tokio::test]
async fn request_that_is_not_charged_has_an_assessment_without_decisions() {
    let away = || {
        let name = LimitName::from("requests").shadow(true);
        let limits = Limits::builder().limit(name, Limit::per_minute(1));
        Limiter::new(limits.build().unwrap(), Store::new(Fate::Away))
    };
    let ours = || limiter(&ManualClock::default());
    let rule = || Rule::new("requests", ClientIp::peer());
    for layer in [
        RateLimitLayer::with_limiter(ours()),
        RateLimitLayer::with_limiter(ours()).rule(rule().skip_if(|_: &Parts| true)),
        RateLimitLayer::with_limiter(ours())
            .rule(rule())
            .skip_if(|_: &Parts| true),
        RateLimitLayer::with_limiter(away()).rule(rule()),
    ] {
        let count = |request: &Request<Full<Bytes>>| {
            let assessment = request.extensions().get::<Assessment>();
            assessment.map(|assessment| assessment.iter().count())
        };
        let handler = service_fn(move |request: Request<Full<Bytes>>| {
            assert_eq!(count(&request), Some(0));
            async { Ok::<_, std::io::Error>(Response::new(Empty::<Bytes>::new())) }
        });
        let inner = layer.clone().extensions(true).layer(handler);
        let response = inner.oneshot(from_ip("203.0.113.7")).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        // Inside another layer, it has the decision of that one.
        let handler = service_fn(move |request: Request<Full<Bytes>>| {
            assert_eq!(count(&request), Some(1));
            async { Ok::<_, std::io::Error>(Response::new(Empty::<Bytes>::new())) }
        });
        let outer = RateLimitLayer::with_limiter(ours())
            .rule(rule())
            .extensions(true);
        let both = outer.layer(layer.extensions(true).layer(handler));
        let response = both.oneshot(from_ip("203.0.113.7")).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn handler_can_give_back_what_was_charged_and_spend_more() {
    let limiter = limiter(&ManualClock::default());
    let handler = service_fn(|request: Request<Full<Bytes>>| async move {
        let assessment = request.extensions().get::<Assessment>().unwrap().clone();
        assessment.refund().await.unwrap();
        let client = assessment.iter().next().unwrap();
        let more = client
            .limiter
            .spend(&client.transaction().cost(5))
            .await
            .unwrap();
        assert_eq!(more.remaining(), Some(15));
        Ok::<_, std::io::Error>(Response::new(Empty::<Bytes>::new()))
    });
    layer(&limiter)
        .extensions(true)
        .layer(handler)
        .oneshot(from_ip("203.0.113.7"))
        .await
        .unwrap();
    let left = bucket(&limiter, "requests", "203.0.113.7")
        .await
        .remaining();
    assert_eq!(left, Some(15));
}

#[tokio::test]
async fn refund_of_a_denied_request_gives_nothing() {
    let limits = Limits::builder()
        .limit("a", Limit::per_minute(5))
        .limit("b", Limit::per_minute(1))
        .build()
        .unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default());
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .response_extension(true)
        .rule(Rule::new("a", Everyone))
        .rule(Rule::new("b", Everyone));
    send(&layer, "203.0.113.7").await;
    let denied = send(&layer, "203.0.113.7").await;
    denied
        .extensions()
        .get::<Assessment>()
        .unwrap()
        .refund()
        .await
        .unwrap();
    let left = bucket(&limiter, "a", "everyone").await.remaining();
    assert_eq!(left, Some(4));
}

/// A layer on a store that decides one batch for each permit.
fn slow() -> (RateLimitLayer, Arc<Gates>) {
    let backend = Slow::default();
    let gates = Arc::clone(&backend.gates);
    gates.answer.add_permits(100);
    let limits = Limits::builder()
        .limit("requests", Limit::per_minute(1))
        .build()
        .unwrap();
    (
        RateLimitLayer::with_limiter(Limiter::new(limits, backend))
            .rule(Rule::new("requests", Everyone)),
        gates,
    )
}

/// Fails when it is called without having been polled ready, as a pool or a permit would.
#[derive(Default)]
struct Strict {
    ready: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<B> Service<Request<B>> for Strict {
    type Response = Response<Full<Bytes>>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        assert!(
            std::mem::take(&mut self.ready),
            "called before it was ready"
        );
        std::future::ready(Ok(Response::new(Full::from("hello"))))
    }
}

#[tokio::test]
async fn service_that_was_ready_is_the_one_called() {
    let (slow, gates) = slow();
    let fast = layer(&limiter(&ManualClock::default()));
    for layer in [slow, fast] {
        let mut service = layer.layer(Strict::default());
        poll_fn(|cx| Service::<Request<Full<Bytes>>>::poll_ready(&mut service, cx))
            .await
            .unwrap();
        gates.decide.add_permits(1);
        let response = service.call(from_ip("203.0.113.7")).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn request_that_is_dropped_while_waiting_does_not_reach_the_service() {
    let (layer, gates) = slow();
    let mut service = layer.layer(Hello);
    {
        let mut future = pin!(service.call(from_ip("203.0.113.7")));
        assert!(
            future
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
    }
    gates.decide.add_permits(1);
    let response = service.call(from_ip("203.0.113.7")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

/// A backend that never answers with a decision.
#[derive(Debug)]
struct Broken;

#[async_trait]
impl Backend for Broken {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        match batch.members.len() {
            1 => Err(BackendError::unavailable("connection refused")),
            // An outcome of no members is one of another batch.
            _ => {
                let none = Batch::new(batch.operation, &[]);
                Ok(Outcome::decide(&none, Timestamp::default(), &mut [])?)
            }
        }
    }
}

#[tokio::test]
async fn request_that_cannot_be_decided_is_refused() {
    let limits = Limits::builder()
        .name("x")
        .limit("a", Limit::per_minute(9))
        .limit("b", Limit::per_minute(9));
    let limiter = Limiter::new(limits.build().unwrap(), Broken);
    let one = RateLimitLayer::with_limiter(limiter).rule(Rule::new("a", Everyone));
    let two = one.clone().rule(Rule::new("b", Everyone));
    for layer in [one, two] {
        let response = send(&layer, "203.0.113.7").await;
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers().get("retry-after").unwrap(), "1");
    }
}

#[tokio::test]
async fn request_without_an_id_is_charged_by_other_rules() {
    let limiter = limiter(&ManualClock::default());
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("requests", Everyone))
        .rule(Rule::new("requests", HeaderId::new("x-account-id")));
    assert_eq!(
        send(&layer, "203.0.113.7").await.status(),
        StatusCode::BAD_REQUEST
    );
    let left = bucket(&limiter, "requests", "everyone").await.remaining();
    assert_eq!(left, Some(19));
}
