//! Refusals from closures that return whatever axum turns into a response.

use axum::{
    Json,
    body::Body,
    response::{Html, IntoResponse},
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::json;
use tollgate::{ClientIp, Limit, RateLimitLayer, response::Refusal};

use crate::support::{Log, send, text};

/// A layer that has let its one request pass.
async fn exhausted(layer: RateLimitLayer) -> RateLimitLayer {
    assert_eq!(send(&layer, "203.0.113.7").await.status(), StatusCode::OK);
    layer
}

fn layer() -> RateLimitLayer {
    RateLimitLayer::new(Limit::per_day(1), ClientIp::peer())
}

async fn refused(layer: RateLimitLayer) -> (StatusCode, HeaderMap, String) {
    let response = send(&exhausted(layer).await, "203.0.113.7").await;
    let (status, headers) = (response.status(), response.headers().clone());
    (status, headers, text(response).await)
}

#[tokio::test]
async fn closures_return_what_handlers_do() {
    let json = layer().respond_with(|refusal: &Refusal<'_>| {
        let body = Json(json!({"error": refusal.message()}));
        (refusal.status, [("x-own", "yes")], body)
    });
    let (status, headers, body) = refused(json).await;
    assert_eq!(
        (status.as_u16(), headers["x-own"].to_str().unwrap()),
        (429, "yes")
    );
    assert_eq!(headers["content-type"], "application/json");
    assert!(body.starts_with(r#"{"error":"too many requests"#), "{body}");
    assert!(headers.contains_key("retry-after") && headers["cache-control"] == "no-store");

    let html =
        layer().respond_with(|_: &Refusal<'_>| (StatusCode::IM_A_TEAPOT, Html("<p>tea</p>")));
    let (status, headers, body) = refused(html).await;
    assert_eq!((status.as_u16(), &*body), (418, "<p>tea</p>"));
    assert_eq!(headers["content-type"], "text/html; charset=utf-8");

    // One that says no status leaves axum's.
    let (status, _, body) = refused(layer().respond_with(|_: &Refusal<'_>| "later")).await;
    assert_eq!((status.as_u16(), &*body), (200, "later"));
    let whole = |refusal: &Refusal<'_>| refusal.status.into_response();
    assert_eq!(refused(layer().respond_with(whole)).await.0, 429);
}

#[tokio::test]
async fn stream_is_left_out_and_told_once() {
    let (log, _guard) = Log::capture();
    let streamed = layer().respond_with(|_: &Refusal<'_>| {
        let pending = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
        (StatusCode::TOO_MANY_REQUESTS, Body::from_stream(pending))
    });
    let layer = exhausted(streamed).await;
    for _ in 0..2 {
        let response = send(&layer, "203.0.113.7").await;
        assert_eq!(response.status(), 429);
        assert_eq!(text(response).await, "");
    }
    assert_eq!(log.count("the body of a refusal is a stream"), 1);
}

#[tokio::test]
async fn frames_of_a_body_that_is_there_are_put_together() {
    let layer = layer().respond_with(|_: &Refusal<'_>| {
        let parts = ["slow ", "down"].map(Ok::<_, std::io::Error>);
        let body = Body::from_stream(futures_util::stream::iter(parts));
        (StatusCode::TOO_MANY_REQUESTS, body)
    });
    assert_eq!(refused(layer).await.2, "slow down");
}
