use std::{net::SocketAddr, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::connect_info::MockConnectInfo,
    http::{Request, StatusCode},
    routing::get,
};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, clock::ManualClock,
    limit::LimitsError,
};
use tower::ServiceExt;

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("requests", Limit::per_second(1).burst(3))
        .build()
}

/// Your application takes its limiter as an argument, so that a test can replace the clock.
fn app(limiter: Limiter) -> Router {
    let rule = Rule::new("requests", ClientIp::peer());
    Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(RateLimitLayer::with_limiter(limiter).rule(rule))
}

async fn status(app: &Router) -> StatusCode {
    let request = Request::get("/")
        .body(Body::empty())
        .expect("a valid request");
    let response = app.clone().oneshot(request).await;
    response.expect("a router does not fail").status()
}

#[tokio::test]
async fn fourth_request_has_to_wait_a_second() {
    let clock = ManualClock::default();
    let limits = limits().expect("valid limits");
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
    // Without a listener, there is no peer address. axum's mock provides one.
    let peer = SocketAddr::from(([203, 0, 113, 7], 49_152));
    let app = app(limiter).layer(MockConnectInfo(peer));

    for _ in 0..3 {
        assert_eq!(status(&app).await, StatusCode::OK);
    }
    assert_eq!(status(&app).await, StatusCode::TOO_MANY_REQUESTS);
    clock.advance(Duration::from_secs(1));
    assert_eq!(status(&app).await, StatusCode::OK);
}

// The page ends here.
