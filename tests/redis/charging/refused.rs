//! Requests that are refused because one rule finds no id: the other rules are charged, whatever the answer is.

use std::convert::Infallible;

use axum::body::Body;
use http::{Request, Response, StatusCode};
use tokio::sync::mpsc::unbounded_channel;
use tollgate::{
    Limit, Limiter, Limits, RateLimitLayer, Rule,
    backend::Backend,
    clock::ManualClock,
    key::{Everyone, HeaderId},
    limit::LimitName,
    rule::RequestEnd,
    transaction::Mode,
};
use tower::{Layer, ServiceExt, service_fn};

use super::{on_each_backend, stack::remaining};

on_each_backend!(
    other_rules_are_charged,
    answer_stays_the_same_if_another_rule_denies,
    endings_are_those_of_the_refusal,
    refusal_has_been_sent_whole,
    rules_that_do_not_charge_are_not_charged,
    limit_in_shadow_mode_keeps_nobody_out,
    denied_and_exempt_requests_are_charged_to_nobody,
);

fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder()
        .limit("all", Limit::per_hour(3))
        .limit("accounts", Limit::per_hour(3))
        .limit(LimitName::from("trial").shadow(true), Limit::per_hour(3))
        .build()
        .unwrap();
    Limiter::new(limits, backend).with_clock(ManualClock::default())
}

fn all() -> Rule {
    Rule::new("all", Everyone)
}

fn account() -> Rule {
    Rule::new("accounts", HeaderId::new("x-account"))
}

fn layer(limiter: &Limiter, rules: impl IntoIterator<Item = Rule>) -> RateLimitLayer {
    let layer = RateLimitLayer::with_limiter(limiter.clone());
    rules.into_iter().fold(layer, RateLimitLayer::rule)
}

async fn answer(layer: &RateLimitLayer) -> Response<()> {
    let hello = service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Response::new(Body::from("hello")))
    });
    let service = layer.layer(hello);
    let response = service.oneshot(Request::default()).await.unwrap();
    response.map(drop)
}

async fn other_rules_are_charged(backend: impl Backend) {
    let limiter = limiter(backend);
    // Whichever of the rules comes first.
    for (rules, expected) in [([account(), all()], 2), ([all(), account()], 1)] {
        let response = answer(&layer(&limiter, rules)).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(remaining(&limiter, "all").await, expected);
        let fields = &response.headers()["ratelimit"];
        assert!(fields.to_str().unwrap().contains(&format!("r={expected}")));
    }
}

async fn answer_stays_the_same_if_another_rule_denies(backend: impl Backend) {
    let limiter = limiter(backend);
    let layer = layer(&limiter, [account(), all()]);
    for expected in [2, 1, 0, 0, 0] {
        let response = answer(&layer).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(response.headers().get("retry-after"), None);
        assert_eq!(remaining(&limiter, "all").await, expected);
    }
}

async fn endings_are_those_of_the_refusal(backend: impl Backend) {
    let limiter = limiter(backend);
    let refused = |ending: &RequestEnd<'_>| ending.status() == Some(StatusCode::BAD_REQUEST);
    let passed = |ending: &RequestEnd<'_>| ending.status() == Some(StatusCode::OK);
    let ended = |ending: &RequestEnd<'_>| !ending.is_abandoned() && !ending.failed();
    for (rule, expected) in [
        (all().charge_if(refused), 2),
        (all().charge_if(passed), 2),
        (all().refund_if(refused), 2),
        (all().refund_if(ended), 2),
        (all().refund_if(passed), 1),
    ] {
        let layer = layer(&limiter, [account(), rule]);
        assert_eq!(answer(&layer).await.status(), StatusCode::BAD_REQUEST);
        // The client is answered when the charge is corrected.
        assert_eq!(remaining(&limiter, "all").await, expected);
    }
}

async fn refusal_has_been_sent_whole(backend: impl Backend) {
    let limiter = limiter(backend);
    let (tell, mut hear) = unbounded_channel();
    let asked = all().settle_by(move |ending| {
        let answered = ending.response().map(|head| head.status.as_u16());
        tell.send((answered, ending.sent() > 0, ending.is_complete()))
            .unwrap();
        2
    });
    answer(&layer(&limiter, [account(), asked])).await;
    assert_eq!(remaining(&limiter, "all").await, 1);
    assert_eq!(hear.recv().await, Some((Some(400), true, true)));
    assert_eq!(hear.recv().await, None);
}

async fn rules_that_do_not_charge_are_not_charged(backend: impl Backend) {
    let limiter = limiter(backend);
    for (mode, expected) in [(Mode::CheckOnly, 3), (Mode::Observe, 3), (Mode::Debit, 2)] {
        let response = answer(&layer(&limiter, [account(), all().mode(mode)])).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(remaining(&limiter, "all").await, expected, "{mode:?}");
    }
}

async fn limit_in_shadow_mode_keeps_nobody_out(backend: impl Backend) {
    let limiter = limiter(backend);
    let trial = Rule::new("trial", HeaderId::new("x-account"));
    let response = answer(&layer(&limiter, [trial, all()])).await;
    assert_eq!(response.status(), StatusCode::OK);
    // One that has an id is charged like others.
    let trial = Rule::new("trial", Everyone);
    let response = answer(&layer(&limiter, [trial, account()])).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(remaining(&limiter, "trial").await, 2);
}

async fn denied_and_exempt_requests_are_charged_to_nobody(backend: impl Backend) {
    let limiter = limiter(backend);
    let layer = layer(&limiter, [account(), all()]);
    let listed = layer
        .clone()
        .deny_if("all", |_: &http::request::Parts| true);
    assert_eq!(answer(&listed).await.status(), StatusCode::FORBIDDEN);
    let exempt = layer.skip_if(|_: &http::request::Parts| true);
    assert_eq!(answer(&exempt).await.status(), StatusCode::OK);
    assert_eq!(remaining(&limiter, "all").await, 3);
}
