use std::time::Duration;

use axum::{Router, routing::get};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule,
    key::HeaderId,
    limit::LimitsError,
    quota::Per,
    rule::paths,
};

fn limits() -> Result<Limits, LimitsError> {
    let reports = Limit::concurrent(2).hold(Duration::from_secs(60));
    Limits::builder()
        // The server, from clients that are not known.
        .limit("address", Limit::per_second(50).burst(100))
        // The server, from an account in a hurry.
        .limit("rate", Limit::per_minute(300).burst(30))
        // The server, from slow work that piles up.
        .limit("reports", reports)
        // The plan.
        .limit("month", Limit::quota(10_000, Per::Month))
        .build()
}

fn app(limiter: Limiter) -> Router {
    // Only a gateway that authenticates may set this header.
    let account = || HeaderId::new("x-account-id");
    let addresses =
        RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("address", ClientIp::peer()));
    let accounts = RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("rate", account()))
        .rule(Rule::new("reports", account()).only_if(paths(["/reports/*"])))
        // What the server has failed to do is not on the bill.
        .rule(Rule::new("month", account()).refund_if(|ending| {
            ending.failed()
                || ending
                    .status()
                    .is_some_and(|status| status.is_server_error())
        }));
    Router::new()
        .route("/items", get(|| async { "items" }))
        .route("/reports/{id}", get(|| async { "a long report" }))
        .layer(accounts)
        // Outside, so that a flood from one address is refused before accounts are looked at.
        .layer(addresses)
}
