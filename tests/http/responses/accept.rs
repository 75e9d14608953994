//! What clients accept.

use bytes::Bytes;
use http::Response;
use tollgate::{
    Limit,
    clock::ManualClock,
    response::{PlainText, Problem, Refusal, Registry},
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, from_ip, layer, limiter_of, send};

#[tokio::test]
async fn client_gets_what_it_likes_best() {
    let layer = || layer(&limiter_of(&ManualClock::default(), Limit::per_minute(1)));
    let closure = |refusal: &Refusal<'_>| {
        let mut response = Response::new(Bytes::from("no"));
        *response.status_mut() = refusal.status;
        response
    };
    let (registry, problem, plain) = (
        "application/json",
        "application/problem+json",
        "text/plain; charset=utf-8",
    );
    let cases = [
        (layer(), "*/*", Some(problem)),
        (layer(), registry, Some(problem)),
        (layer().respond_with(Registry), "*/*", Some(registry)),
        (layer().respond_with(Registry), problem, Some(problem)),
        (layer(), "text/*, */*;q=0.1", Some(plain)),
        (layer(), "image/png", Some(problem)),
        (
            layer().respond_with(Problem::new()),
            "application/json",
            Some(problem),
        ),
        (
            layer().respond_with(Problem::acme()),
            problem,
            Some(problem),
        ),
        (layer().respond_with(PlainText), problem, Some(problem)),
        (layer().respond_with(PlainText), "*/*", Some(plain)),
        (layer().respond_with(closure), problem, None),
    ];
    for (layer, accept, content_type) in cases {
        send(&layer, "203.0.113.7").await;
        let mut request = from_ip("203.0.113.7");
        request
            .headers_mut()
            .insert("accept", accept.parse().unwrap());
        let response = layer.layer(Hello).oneshot(request).await.unwrap();
        assert_eq!(response.status(), 429, "{accept}");
        assert_eq!(
            super::value(response.headers(), "content-type"),
            content_type,
            "{accept}"
        );
    }
}
