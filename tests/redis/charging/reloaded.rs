//! Charges that are given back under other limits than those they were made under.

use axum::{Extension, Router, body::Body, extract::Path, routing::get};
use http::{Request, StatusCode};
use tollgate::{
    Limit, Limiter, Limits, RateLimitLayer, Rule, Transaction, backend::Backend,
    clock::ManualClock, key::Everyone, layer::Assessment,
};
use tower::ServiceExt;

use super::on_each_backend;

on_each_backend!(
    handler_gets_back_no_more_time_than_it_was_charged,
    layer_gives_back_no_more_time_than_it_charged,
);

/// How many come back in a second after the reload, and what remains then of 20 if 15 were charged at 20 in a second, and
/// 10 of them are given back.
const RELOADS: [(u32, u32); 3] = [
    // A quarter of a second is left, of which a token takes a tenth.
    (10, 17),
    (20, 15),
    // Of three quarters, 10 tokens are a quarter now.
    (40, 0),
];

fn limits(per_second: u32) -> Limits {
    let limit = Limit::per_second(per_second).burst(20);
    Limits::builder().limit("l", limit).build().unwrap()
}

/// Charges 5, and 10 for a request in which the limits are reloaded and 10 are given back, and compares what remains.
async fn expect_remaining(backend: impl Backend, rule: Rule, does_handler_refund: bool) {
    let limiter = Limiter::new(limits(20), backend).with_clock(ManualClock::default());
    let other = limiter.clone();
    let handler = async move |Path(per_second): Path<u32>,
                              Extension(own): Extension<Assessment>| {
        other.reload(limits(per_second)).unwrap();
        if does_handler_refund {
            own.refund().await.unwrap();
        }
    };
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule.cost(10));
    let layer = layer.extensions(true);
    let app = Router::new().route("/{reload}", get(handler)).layer(layer);
    for (per_second, remaining) in RELOADS {
        let before = Transaction::new("l", "everyone").cost(5);
        limiter.reload(limits(20)).unwrap();
        limiter.reset(&[before]).await.unwrap();
        limiter.spend(&before).await.unwrap();
        let request = Request::get(format!("/{per_second}"));
        let request = request.body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let look = limiter.check(&before.cost(0)).await.unwrap();
        assert_eq!(look.remaining(), Some(remaining), "{per_second} per second");
    }
}

async fn handler_gets_back_no_more_time_than_it_was_charged(backend: impl Backend) {
    expect_remaining(backend, Rule::new("l", Everyone), true).await;
}

async fn layer_gives_back_no_more_time_than_it_charged(backend: impl Backend) {
    let rule = Rule::new("l", Everyone).refund_if(|_| true);
    expect_remaining(backend, rule, false).await;
}
