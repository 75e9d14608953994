//! Behind a CORS layer: preflights, and what a page may read.

use bytes::Bytes;
use http::{HeaderName, Method, Request, StatusCode, header};
use http_body_util::Full;
use tollgate::{Limit, clock::ManualClock, response::Headers};
use tower::{ServiceBuilder, ServiceExt};
use tower_http::cors::CorsLayer;

use super::value;
use crate::support::{Hello, from_ip, layer, limiter_of};

#[test]
fn exposed_fields_are_those_of_the_dialect() {
    let names = |dialect: Headers| {
        let names = dialect.exposed();
        let names = names.iter().map(|name| name.as_str().to_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    let three = "x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset retry-after link";
    assert_eq!(
        names(Headers::Draft11),
        "ratelimit ratelimit-policy retry-after link"
    );
    assert_eq!(names(Headers::XRateLimitEpoch), three);
    assert_eq!(names(Headers::XRateLimitDelta), three);
    assert_eq!(names(Headers::None), "retry-after link");
}

/// What a page asks for: a preflight, if the method is `OPTIONS`.
fn asked(method: Method) -> Request<Full<Bytes>> {
    let mut request = from_ip("203.0.113.7");
    *request.method_mut() = method;
    let headers = request.headers_mut();
    headers.insert(header::ORIGIN, "https://page.example".parse().unwrap());
    let put = "PUT".parse().unwrap();
    headers.insert(header::ACCESS_CONTROL_REQUEST_METHOD, put);
    request
}

#[tokio::test]
async fn preflights_are_neither_limited_nor_charged() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_minute(1));
    let stack = ServiceBuilder::new()
        .layer(CorsLayer::permissive())
        .layer(layer(&limiter))
        .service(Hello);
    let send = |method| stack.clone().oneshot(asked(method));
    for _ in 0..3 {
        let preflight = send(Method::OPTIONS).await.unwrap();
        assert_eq!(preflight.status(), StatusCode::OK);
        let allowed = value(preflight.headers(), "access-control-allow-methods");
        assert_eq!(allowed, Some("*"));
    }
    let statuses = [Method::PUT, Method::PUT, Method::OPTIONS];
    for (method, status) in statuses.into_iter().zip([200, 429, 200]) {
        assert_eq!(send(method).await.unwrap().status(), status);
    }
}

#[tokio::test]
async fn page_may_read_all_that_a_refusal_says() {
    for (dialect, fields) in [(Headers::Draft11, 3), (Headers::XRateLimitEpoch, 4)] {
        let limiter = limiter_of(&ManualClock::default(), Limit::per_minute(1));
        let stack = ServiceBuilder::new()
            .layer(CorsLayer::permissive().expose_headers(dialect.exposed()))
            .layer(layer(&limiter).headers(dialect))
            .service(Hello);
        let send = || stack.clone().oneshot(asked(Method::PUT));
        assert_eq!(send().await.unwrap().status(), StatusCode::OK);
        let refused = send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        let headers = refused.headers();
        assert_eq!(value(headers, "access-control-allow-origin"), Some("*"));
        let exposed = value(headers, "access-control-expose-headers").unwrap();
        let exposed: Vec<_> = exposed.split(',').map(str::trim).collect();
        let names = headers.keys().map(HeaderName::as_str);
        let ours = names.filter(|name| name.contains("ratelimit") || *name == "retry-after");
        assert_eq!(ours.filter(|name| exposed.contains(name)).count(), fields);
    }
}
