include!("pages/logins.rs");

use std::time::Duration;

use axum::{body::Body, extract::Request};

#[test]
fn page_shows_this_code() {
    super::expect_shown(
        include_str!("../../../docs/recipes/logins.md"),
        include_str!("pages/logins.rs"),
    );
}

fn attempt(ip: &str, user: &str, password: &str) -> Request {
    let body = serde_json::json!({"user": user, "password": password});
    let request = super::from_ip(ip).method("POST").uri("/login");
    let request = request.header("content-type", "application/json");
    request.body(Body::from(body.to_string())).unwrap()
}

#[tokio::test]
async fn five_failures_lock_a_user_for_every_spelling_and_every_address() {
    let (limiter, clock) = super::limiter(limits());
    let app = app(limiter).unwrap();
    for (i, user) in ["alice", "Alice", " ALICE", "alice ", "aLICE"]
        .iter()
        .enumerate()
    {
        let request = attempt(&format!("203.0.113.{i}"), user, "guess");
        assert_eq!(super::send(&app, request).await.status(), 401);
    }
    let refused = super::send(&app, attempt("203.0.113.9", "alice", "wonderland")).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "180");
    clock.advance(Duration::from_secs(180));
    let right = || attempt("203.0.113.9", "alice", "wonderland");
    assert_eq!(super::send(&app, right()).await.status(), 200);
}

#[tokio::test]
async fn successes_do_not_count() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter).unwrap();
    let right = || attempt("203.0.113.7", "alice", "wonderland");
    assert_eq!(super::count(&app, 100, right, [200]).await, [100]);
}

#[tokio::test]
async fn one_address_fails_twenty_times_whatever_the_names() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter).unwrap();
    for i in 0..25 {
        let request = attempt("203.0.113.7", &format!("user-{i}"), "guess");
        let expected = if i < 20 { 401 } else { 429 };
        assert_eq!(super::send(&app, request).await.status(), expected, "{i}");
    }
    let garbage = super::from_ip("203.0.113.8").method("POST").uri("/login");
    assert!(super::status(&app, garbage).await.is_client_error());
}
