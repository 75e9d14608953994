use std::time::Duration;

use axum::{Router, routing::get};
use tollgate::{ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule, limit::LimitsError};

fn limits() -> Result<Limits, LimitsError> {
    // Ten per second, two at once. Further requests wait for up to two seconds.
    let requests = Limit::per_second(10)
        .burst(2)
        .max_wait(Duration::from_secs(2));
    Limits::builder().limit("requests", requests).build()
}

fn app(limiter: Limiter) -> Router {
    let rule = Rule::new("requests", ClientIp::peer());
    let wait = RateLimitLayer::with_limiter(limiter.clone()).rule(rule.clone());
    let refuse = RateLimitLayer::with_limiter(limiter).rule(rule.no_wait());
    let jobs = Router::new()
        .route("/export", get(|| async { "a report" }))
        .route_layer(wait);
    let pages = Router::new()
        .route("/", get(|| async { "hello" }))
        .route_layer(refuse);
    jobs.merge(pages)
}
