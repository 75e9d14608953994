//! Behind a CORS layer: preflights, and what a page may read.

use http::{HeaderMap, Method, Request, StatusCode, header};
use tollgate::{Limit, clock::ManualClock, response::Headers};
use tower::{ServiceBuilder, ServiceExt};
use tower_http::cors::CorsLayer;

use super::{
    support::{Hello, from_ip, layer, limiter_of},
    value,
};

const ORIGIN: &str = "https://page.example";

#[test]
fn exposed_fields_are_those_of_the_dialect() {
    let names = |dialect: Headers| {
        let names = dialect.exposed();
        let names = names.iter().map(|name| name.as_str().to_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    let three = "x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset retry-after link";
    assert_eq!(
        names(Headers::Draft10),
        "ratelimit ratelimit-policy retry-after link"
    );
    assert_eq!(names(Headers::XRateLimitEpoch), three);
    assert_eq!(names(Headers::XRateLimitDelta), three);
    assert_eq!(names(Headers::None), "retry-after link");
}

/// Whether a page may read a field of a response.
fn may_read(headers: &HeaderMap, field: &str) -> bool {
    let exposed = value(headers, "access-control-expose-headers").unwrap_or_default();
    exposed
        .split(',')
        .any(|name| name.trim().eq_ignore_ascii_case(field))
}

#[tokio::test]
async fn preflights_cost_nothing_and_refusals_can_be_read() {
    for dialect in [Headers::Draft10, Headers::XRateLimitEpoch] {
        let limiter = limiter_of(&ManualClock::default(), Limit::per_minute(1));
        let cors = CorsLayer::permissive().expose_headers(dialect.exposed());
        let stack = ServiceBuilder::new()
            .layer(cors)
            .layer(layer(&limiter).headers(dialect));
        let send = |method: Method| {
            let mut request: Request<_> = from_ip("203.0.113.7");
            *request.method_mut() = method;
            let headers = request.headers_mut();
            headers.insert(header::ORIGIN, ORIGIN.parse().unwrap());
            headers.insert(
                header::ACCESS_CONTROL_REQUEST_METHOD,
                "PUT".parse().unwrap(),
            );
            stack.clone().service(Hello).oneshot(request)
        };
        for _ in 0..3 {
            let preflight = send(Method::OPTIONS).await.unwrap();
            assert_eq!(preflight.status(), StatusCode::OK);
            assert!(
                preflight
                    .headers()
                    .contains_key("access-control-allow-methods")
            );
        }
        assert_eq!(send(Method::PUT).await.unwrap().status(), StatusCode::OK);
        let refused = send(Method::PUT).await.unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        let headers = refused.headers();
        assert_eq!(value(headers, "access-control-allow-origin"), Some("*"));
        let ours = |name: &&http::HeaderName| {
            let name = name.as_str();
            name.contains("ratelimit") || name == "retry-after"
        };
        let ours: Vec<_> = headers.keys().filter(ours).collect();
        assert!(ours.len() >= 3, "{ours:?}");
        assert!(ours.iter().all(|name| may_read(headers, name.as_str())));
        // Preflights go on.
        assert_eq!(
            send(Method::OPTIONS).await.unwrap().status(),
            StatusCode::OK
        );
    }
}
