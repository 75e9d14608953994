use axum::{Router, routing::get};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule,
    id::IdFormat,
    limit::{LimitName, LimitsError},
};

fn limits(enforce_searches: bool) -> Result<Limits, LimitsError> {
    let searches = LimitName::unnumbered("searches", IdFormat::Opaque).shadow(!enforce_searches);
    Limits::builder()
        .limit("requests", Limit::per_second(50))
        .limit(searches, Limit::per_minute(10).burst(5))
        .build()
}

fn app(limiter: Limiter) -> Router {
    let searches = Rule::new("searches", ClientIp::peer());
    let search = get(|| async { "results" });
    Router::new()
        .route(
            "/search",
            search.route_layer(RateLimitLayer::with_limiter(limiter.clone()).rule(searches)),
        )
        .layer(RateLimitLayer::with_limiter(limiter).rule(Rule::new("requests", ClientIp::peer())))
}
