//! The layer in axum routers, over real sockets.

#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::net::SocketAddr;

use axum::{Router, routing::get};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tollgate::{
    ClientIp, Limit, RateLimitLayer, Rule, clock::ManualClock, key::MatchedPath, layer::Assessment,
};
use tower_http::{compression::CompressionLayer, trace::TraceLayer};

use crate::support::{Log, bucket, layer, limiter_of};

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

async fn fetch(address: SocketAddr, request: Request<Full<Bytes>>) -> Response<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

fn request(path: &str) -> Request<Full<Bytes>> {
    Request::get(path)
        .header(header::HOST, "localhost")
        .body(Full::default())
        .unwrap()
}

async fn status(address: SocketAddr, path: &str) -> StatusCode {
    fetch(address, request(path)).await.status()
}

#[tokio::test]
async fn layer_covers_the_fallback_and_route_layer_does_not() {
    let of = || layer(&limiter_of(&ManualClock::default(), Limit::per_minute(1)));
    let app = || Router::new().route("/", get(|| async { "hello" }));
    let covered = serve(app().layer(of())).await;
    assert_eq!(status(covered, "/nowhere").await, StatusCode::NOT_FOUND);
    assert_eq!(
        status(covered, "/nowhere").await,
        StatusCode::TOO_MANY_REQUESTS
    );
    let routes = serve(app().route_layer(of())).await;
    assert_eq!(status(routes, "/nowhere").await, StatusCode::NOT_FOUND);
    assert_eq!(status(routes, "/nowhere").await, StatusCode::NOT_FOUND);
    assert_eq!(status(routes, "/").await, StatusCode::OK);
    assert_eq!(status(routes, "/").await, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn stacks_above_compression_and_below_tracing() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_minute(1));
    let app = Router::new()
        .route("/", get(|| async { "hello ".repeat(1000) }))
        .layer(CompressionLayer::new())
        .layer(layer(&limiter))
        .layer(TraceLayer::new_for_http());
    let address = serve(app).await;
    let gzipped = || {
        let mut request = request("/");
        request
            .headers_mut()
            .insert(header::ACCEPT_ENCODING, "gzip".parse().unwrap());
        request
    };
    let allowed = fetch(address, gzipped()).await;
    assert_eq!(allowed.headers()[header::CONTENT_ENCODING], "gzip");
    assert_eq!(allowed.headers()["ratelimit"], "\"requests\";r=0;t=60");
    let denied = fetch(address, gzipped()).await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.headers().get(header::CONTENT_ENCODING), None);
}

#[tokio::test]
async fn each_route_has_a_bucket_of_its_own() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_hour(2));
    let by_route = Rule::new("requests", (ClientIp::peer(), MatchedPath));
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(by_route);
    let app = Router::new()
        .route("/users/{id}", get(|| async { "a user" }))
        .nest(
            "/api",
            Router::new().route("/{*rest}", get(|| async { "the rest" })),
        )
        .layer(layer);
    let address = serve(app).await;
    for (path, expected) in [
        ("/users/1", 200),
        ("/users/2", 200),
        ("/users/3", 429),
        ("/api/a", 200),
        ("/api/b/c", 200),
        ("/api/users/1", 429),
        // Without a route, all are one.
        ("/nowhere", 404),
        ("/elsewhere", 404),
        ("/anywhere", 429),
    ] {
        assert_eq!(status(address, path).await, expected, "{path}");
    }
    for route in ["/users/{id}", "/api/{*rest}", "unmatched"] {
        let id = format!("127.0.0.1:{route}");
        let left = bucket(&limiter, "requests", &id).await.remaining();
        assert_eq!(left, Some(0), "{route}");
    }
}

#[tokio::test]
async fn mocked_peer_is_a_peer() {
    use axum::extract::connect_info::MockConnectInfo;
    use tower::ServiceExt;

    let mock = MockConnectInfo(SocketAddr::from(([203, 0, 113, 7], 1)));
    let limiter = limiter_of(&ManualClock::default(), Limit::per_hour(1));
    let app = Router::new().route("/", get(|| async { "hello" }));
    let app = app.layer(layer(&limiter)).layer(mock);
    for status in [200, 429] {
        let request = Request::new(axum::body::Body::empty());
        let response = app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), status);
    }
}

#[tokio::test]
async fn assessment_is_an_extractor_that_names_the_setting_it_needs() {
    let (log, _guard) = Log::capture();
    let handler = get(async |assessment: Assessment| assessment.iter().count().to_string());
    let layer = || layer(&limiter_of(&ManualClock::default(), Limit::per_minute(1)));
    let app = |layer: RateLimitLayer| Router::new().route("/", handler.clone()).layer(layer);
    let with = serve(app(layer().extensions(true))).await;
    assert_eq!(fetch(with, request("/")).await.body(), "1");
    assert_eq!(log.count("extensions(true)"), 0, "{log:?}");
    let without = fetch(serve(app(layer())).await, request("/")).await;
    assert_eq!(without.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let body = str::from_utf8(without.body()).unwrap();
    assert!(body.contains("`.extensions(true)`"), "{body}");
    let line = format!("ERROR tollgate::layer::extractor: a handler fails error={body}");
    assert_eq!(log.count(&line), 1, "{log:?}");
}
