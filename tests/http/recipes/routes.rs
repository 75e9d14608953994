include!("pages/routes.rs");

use axum::{body::Body, extract::Request};

fn request(method: &str, path: &str) -> Request {
    let request = super::from_ip("203.0.113.7").method(method).uri(path);
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn each_route_has_a_bucket_of_its_own() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter);
    let first = || request("GET", "/articles/1");
    let second = || request("GET", "/articles/2");
    assert_eq!(super::count(&app, 15, first, [200]).await, [15]);
    assert_eq!(super::count(&app, 6, second, [200, 429]).await, [5, 1]);
    let search = || request("GET", "/search");
    assert_eq!(super::count(&app, 5, search, [200, 429]).await, [3, 2]);
    let health = || request("GET", "/health");
    assert_eq!(super::count(&app, 99, health, [200]).await, [99]);
    let nothing = || request("GET", "/nothing");
    assert_eq!(super::count(&app, 99, nothing, [404]).await, [99]);
}

#[tokio::test]
async fn writes_have_a_limit_of_their_own() {
    let (limiter, clock) = super::limiter(limits());
    let app = app(limiter);
    let write = || request("PUT", "/articles/1");
    assert_eq!(super::count(&app, 20, write, [200]).await, [20]);
    // A second brings ten back to the route, and half a write.
    clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(super::count(&app, 10, write, [200]).await, [10]);
    clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(super::count(&app, 2, write, [200, 429]).await, [1, 1]);
    let read = || request("GET", "/articles/1");
    assert_eq!(super::count(&app, 9, read, [200]).await, [9]);
}
