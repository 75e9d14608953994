use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::StatusCode,
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::post,
};
use serde::Deserialize;
use tollgate::{ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule, limit::LimitsError};

/// The longest request body that is read, in bytes.
const MAX_BODY: usize = 64 * 1024;

#[derive(Deserialize)]
struct Query {
    query: String,
}

/// The cost of a query, in the request's extensions.
#[derive(Clone, Copy)]
struct Cost(u32);

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("requests", Limit::per_second(20))
        .limit("query-cost", Limit::per_minute(1_000).burst(50))
        .build()
}

fn app(limiter: Limiter) -> Router {
    let requests = Rule::new("requests", ClientIp::peer());
    let cost = Rule::new("query-cost", ClientIp::peer()).cost_by(|parts| {
        let cost = parts.extensions.get::<Cost>();
        cost.map_or(1, |Cost(cost)| *cost)
    });
    let inner = RateLimitLayer::with_limiter(limiter.clone()).rule(cost);
    let outer = RateLimitLayer::with_limiter(limiter).rule(requests);
    // The last one is the outermost: requests are limited, then read, then limited by cost.
    let graphql = post(|| async { "{\"data\": {}}" })
        .route_layer(inner)
        .route_layer(from_fn(read_query))
        .route_layer(outer);
    Router::new().route("/graphql", graphql)
}

async fn read_query(request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let Ok(Query { query }) = serde_json::from_slice(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    parts.extensions.insert(Cost(cost_of(&query)));
    next.run(Request::from_parts(parts, Body::from(body))).await
}

/// A stand-in for your GraphQL library's complexity analysis: 1 for each selection set, and at least 1.
fn cost_of(query: &str) -> u32 {
    let selections = query.matches('{').count();
    u32::try_from(selections).unwrap_or(u32::MAX).max(1)
}
