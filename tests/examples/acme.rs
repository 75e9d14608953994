//! The example `acme`: Let's Encrypt's limits over HTTP.

#![cfg(all(feature = "axum", feature = "yaml"))]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

#[path = "../../examples/acme/app.rs"]
mod app;
#[path = "../../examples/acme/order.rs"]
mod order;

use axum::{
    Router,
    body::{Body, to_bytes},
};
use http::{Request, StatusCode, header::RETRY_AFTER};
use serde_json::{Value, json};
use tollgate::{ClientIp, Limiter, MemoryBackend, clock::ManualClock, key::Ipv6Range};
use tower::ServiceExt;

use crate::support::from_ip;

struct Authority(Router);

impl Authority {
    fn new() -> Self {
        let clients = app::Clients {
            address: ClientIp::peer().exact(),
            range: Ipv6Range::peer(),
        };
        let recipe = app::limits()
            .defaults_file("examples/config/defaults.yml")
            .overrides_file("examples/config/overrides.yml");
        let limiter = Limiter::new(recipe.build().unwrap(), MemoryBackend::new());
        let limiter = limiter.with_clock(ManualClock::default());
        Self(app::router(&limiter, clients))
    }

    async fn send(&self, request: Request<Body>) -> (StatusCode, Option<u64>, Value) {
        let response = self.0.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let wait = head.headers.get(RETRY_AFTER);
        let wait = wait.map(|wait| wait.to_str().unwrap().parse().unwrap());
        let body = to_bytes(body, 1 << 20).await.unwrap();
        (head.status, wait, serde_json::from_slice(&body).unwrap())
    }

    async fn register(&self, ip: &str) -> StatusCode {
        let (mut head, _) = from_ip(ip).into_parts();
        (head.method, head.uri) = (http::Method::POST, "/new-account".parse().unwrap());
        self.send(Request::from_parts(head, Body::empty())).await.0
    }

    /// Returns how many of `tries` registrations pass.
    async fn registered(&self, ip: &str, tries: usize) -> usize {
        let mut passed = 0;
        for _ in 0..tries {
            passed += usize::from(self.register(ip).await == StatusCode::CREATED);
        }
        passed
    }

    async fn order(&self, account: &str, names: &[&str]) -> (StatusCode, Option<u64>, Value) {
        let request = Request::post("/new-order")
            .header("x-account-id", account)
            .header("content-type", "application/json")
            .body(json!({"identifiers": names}).to_string().into());
        self.send(request.unwrap()).await
    }
}

#[tokio::test]
async fn addresses_of_one_range_share_its_limit() {
    let authority = Authority::new();
    let mut passed = 0;
    for host in 1..=30 {
        passed += authority
            .registered(&format!("2001:db8:1:{host}::1"), 20)
            .await;
    }
    assert_eq!(passed, 500);
    // A client that was refused for its range was not charged for its address.
    assert_eq!(authority.registered("2001:db8:2::1", 25).await, 20);
    assert_eq!(authority.registered("192.0.2.1", 25).await, 20);
}

#[tokio::test]
async fn names_of_one_domain_count_once() {
    let authority = Authority::new();
    for host in 0..50 {
        let names = [
            format!("a{host}.example.com"),
            format!("b{host}.Example.com"),
        ];
        let (status, ..) = authority.order("1", &[&names[0], &names[1]]).await;
        assert_eq!(status, StatusCode::CREATED);
    }
    let (status, wait, problem) = authority
        .order("2", &["www.example.com", "example.org"])
        .await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(problem["type"], "urn:ietf:params:acme:error:rateLimited");
    // 50 in 168 hours: one in 12096 seconds.
    assert_eq!(wait, Some(12_096));
    // Nothing of the refused order counts, of the other domain either.
    for host in 0..50 {
        let (status, ..) = authority
            .order("2", &[&format!("a{host}.example.org")])
            .await;
        assert_eq!(status, StatusCode::CREATED);
    }
}

#[tokio::test]
async fn set_of_names_counts_in_any_order() {
    let authority = Authority::new();
    let order = async |names: [&str; 2]| authority.order("1", &names).await.0;
    for _ in 0..5 {
        let status = order(["example.net", "www.example.net"]).await;
        assert_eq!(status, StatusCode::CREATED);
    }
    let reversed = order(["www.example.net", "example.net"]).await;
    assert_eq!(reversed, StatusCode::TOO_MANY_REQUESTS);
    let another = order(["example.net", "mail.example.net"]).await;
    assert_eq!(another, StatusCode::CREATED);
    // This set has an override of 1.
    for status in [StatusCode::CREATED, StatusCode::TOO_MANY_REQUESTS] {
        assert_eq!(order(["example.com", "www.example.com"]).await, status);
    }
}

#[tokio::test]
async fn invalid_requests_are_refused_with_a_remedy() {
    let authority = Authority::new();
    for names in [
        &["com"][..],
        &["exa mple.com"],
        &[],
        &["203.0.113.0/24"],
        &["203.0.113.7:443"],
        &["a.com,b.com"],
    ] {
        let (status, _, problem) = authority.order("1", names).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{names:?}: {problem}");
        let error = problem["type"].as_str().unwrap();
        assert!(error.starts_with("urn:ietf:params:acme:error:"), "{error}");
        assert!(problem["detail"].is_string(), "{problem}");
    }
    for account in ["0012", "me", "18446744073709551616"] {
        let (status, _, problem) = authority.order(account, &["example.com"]).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert_eq!(problem["type"], "urn:ietf:params:acme:error:malformed");
        let message = problem["detail"].as_str().unwrap();
        assert!(message.contains("regId: use a whole number"), "{message}");
    }
}
