use axum::{Router, http::Method, routing::get};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule, key::MatchedPath, limit::LimitsError,
    rule::methods,
};

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("per-route", Limit::per_second(10).burst(20))
        .limit("writes", Limit::per_minute(30))
        .limit("searches", Limit::per_minute(6).burst(3))
        .build()
}

fn app(limiter: Limiter) -> Router {
    // A bucket for each client and route: `/articles/1` and `/articles/2` share one.
    let per_route = Rule::new("per-route", (ClientIp::peer(), MatchedPath));
    // A bucket for each client, for all routes together.
    let writes = Rule::new("writes", ClientIp::peer()).skip_if(methods([
        Method::GET,
        Method::HEAD,
        Method::OPTIONS,
    ]));
    // For a single route, put a layer on it.
    let searches =
        RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("searches", ClientIp::peer()));
    let article = get(|| async { "an article" }).put(|| async { "changed" });
    Router::new()
        .route("/articles/{id}", article)
        .route("/search", get(|| async { "results" }).route_layer(searches))
        .route_layer(
            RateLimitLayer::with_limiter(limiter)
                .rule(per_route)
                .rule(writes),
        )
        // Routes added after a layer are outside of it.
        .route("/health", get(|| async { "ok" }))
}
