use std::time::Duration;

use axum::{Router, routing::get};
use tollgate::{
    Limit, Limiter, Limits, RateLimitLayer, Rule,
    key::HeaderId,
    limit::LimitsError,
    limiter::{LimitHandle, LimiterError},
};

fn limits() -> Result<Limits, LimitsError> {
    // Two exports of an account at once, and ten started per minute.
    let at_once = Limit::concurrent(2).hold(Duration::from_secs(60));
    Limits::builder()
        .limit("exports", at_once)
        .limit("requests", Limit::per_minute(10))
        .build()
}

fn app(limiter: Limiter) -> Router {
    let account = || HeaderId::new("x-account-id");
    let layer = RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("requests", account()))
        .rule(Rule::new("exports", account()));
    Router::new()
        .route("/export", get(|| async { "a long report" }))
        .route_layer(layer)
}

/// The same without HTTP. Returns whether the export has run.
async fn export(exports: &LimitHandle, account: &str) -> Result<bool, LimiterError> {
    let Ok(permit) = exports.enter(account).await? else {
        return Ok(false);
    };
    // Write the export here.
    drop(permit);
    Ok(true)
}
