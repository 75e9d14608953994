//! Handlers that charge and give back by the assessment.

use axum::{Extension, Router, body::Body, extract::Path, routing::get};
use http::{Request, StatusCode};
use tollgate::{
    Limit, Limiter, Limits, RateLimitLayer, Rule, Transaction, backend::Backend,
    clock::ManualClock, key::Everyone, layer::Assessment, tiers::Tier,
};
use tower::ServiceExt;

use super::{
    on_each_backend,
    stack::{comes_to_be, remaining},
};

on_each_backend!(
    handler_settles_as_often_as_it_likes,
    refund_is_given_once,
    handler_that_settles_at_once_is_counted_exactly,
    what_the_handler_settled_is_corrected_from_there,
    nested_layers_are_all_found,
);

fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder()
        .limit("l", Limit::per_hour(1000))
        .limit("outer", Limit::per_hour(10))
        .build();
    Limiter::new(limits.unwrap(), backend).with_clock(ManualClock::default())
}

fn app(rule: Rule, limiter: &Limiter) -> Router {
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    Router::new()
        .route("/settle/{cost}", get(settle))
        .route("/refund", get(refund))
        .layer(layer.extensions(true))
}

async fn settle(
    Path(costs): Path<String>,
    Extension(assessment): Extension<Assessment>,
) -> StatusCode {
    let assessed = assessment.of("l").unwrap();
    for cost in costs.split(',') {
        let cost = cost.parse().unwrap();
        assessed.settle(cost).await.unwrap();
        assert_eq!(assessed.charged(), cost);
    }
    StatusCode::OK
}

async fn refund(Extension(assessment): Extension<Assessment>) -> StatusCode {
    let again = assessment.clone();
    let (first, second) = tokio::join!(assessment.refund(), again.refund());
    first.and(second).unwrap();
    StatusCode::OK
}

async fn get_path(app: &Router, path: &str) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

async fn handler_settles_as_often_as_it_likes(backend: impl Backend) {
    let limiter = limiter(backend);
    let app = app(Rule::new("l", Everyone).cost(10), &limiter);
    let mut left = 1000;
    for (costs, charged) in [("3", 3), ("10", 10), ("25", 25), ("5,40,7", 7), ("0", 0)] {
        get_path(&app, &format!("/settle/{costs}")).await;
        left -= charged;
        assert_eq!(remaining(&limiter, "l").await, left, "{costs}");
    }
}

async fn refund_is_given_once(backend: impl Backend) {
    let limiter = limiter(backend);
    let app = app(Rule::new("l", Everyone).cost(10), &limiter);
    let ten = Transaction::new("l", "everyone").cost(100);
    limiter.spend(&ten).await.unwrap();
    get_path(&app, "/refund").await;
    assert_eq!(remaining(&limiter, "l").await, 900);
}

async fn handler_that_settles_at_once_is_counted_exactly(backend: impl Backend) {
    let limiter = limiter(backend);
    let app = app(Rule::new("l", Everyone).cost(1), &limiter);
    let requests = (0..40).map(|i| {
        let app = app.clone();
        async move { get_path(&app, &format!("/settle/{}", i % 5)).await }
    });
    futures_util::future::join_all(requests).await;
    assert_eq!(remaining(&limiter, "l").await, 1000 - 8 * (1 + 2 + 3 + 4));
}

async fn what_the_handler_settled_is_corrected_from_there(backend: impl Backend) {
    let limiter = limiter(backend);
    let rule = Rule::new("l", Everyone).cost(10).settle_by(|_| 4);
    get_path(&app(rule, &limiter), "/settle/100").await;
    // On Redis, the end of a body is not waited for.
    comes_to_be(996, || remaining(&limiter, "l")).await;
}

async fn nested_layers_are_all_found(backend: impl Backend) {
    let limiter = limiter(backend);
    let outer = RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("outer", Everyone));
    let app = app(Rule::new("l", Everyone), &limiter).layer(outer.extensions(true));
    get_path(&app, "/settle/1").await;
    assert_eq!(remaining(&limiter, "outer").await, 9);
    get_path(&app, "/refund").await;
    assert_eq!(remaining(&limiter, "outer").await, 9);
    assert_eq!(remaining(&limiter, "l").await, 999);
}

#[tokio::test]
async fn rules_that_would_give_back_to_tiers_are_errors_at_start() {
    let limit = Limit::tiers([Tier::new(5, std::time::Duration::from_secs(1))]).unwrap();
    let limits = Limits::builder().limit("l", limit).build().unwrap();
    let limiter = Limiter::new(limits, tollgate::MemoryBackend::new());
    let rule = || Rule::new("l", Everyone);
    let refused = |rule| {
        RateLimitLayer::with_limiter(limiter.clone())
            .try_rule(rule)
            .unwrap_err()
    };
    for rule in [rule().refund_if(|_| true), rule().settle_by(|_| 0)] {
        let error = refused(rule).to_string();
        assert!(
            error.contains("has tiers, which cannot be refunded"),
            "{error}"
        );
    }
    let charges = rule().charge_if(|_| true);
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(charges);
    assert!(
        layer.try_rule(rule()).is_err(),
        "two rules that cannot be added up"
    );
}
