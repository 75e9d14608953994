include!("pages/shadow_mode.rs");

use axum::{body::Body, extract::Request};
use tollgate::Transaction;

fn search() -> Request {
    let request = super::from_ip("203.0.113.7").uri("/search");
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn limit_refuses_nobody_until_it_is_enforced() {
    let (limiter, _) = super::limiter(limits(false));
    let app = app(limiter.clone());
    assert_eq!(super::count(&app, 20, search, [200]).await, [20]);
    let response = super::send(&app, search()).await;
    let fields = response.headers()["ratelimit"].to_str().unwrap();
    assert!(!fields.contains("searches"), "{fields}");
    let next = Transaction::new("searches", "203.0.113.7");
    let decision = limiter.check(&next).await.unwrap();
    assert!(decision.allowed() && decision.would_be_denied());

    limiter.reload(limits(true).unwrap()).unwrap();
    assert_eq!(super::count(&app, 5, search, [429]).await, [5]);
}
