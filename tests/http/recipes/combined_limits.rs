include!("pages/combined_limits.rs");

use axum::body::Body;
use http::{Request, StatusCode};

use crate::support::bucket;

fn request(path: &str, ip: &str, account: &str) -> Request<Body> {
    let builder = super::from_ip(ip).uri(path).header("x-account-id", account);
    builder.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn refused_report_costs_its_account_nothing() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter.clone());
    let report = || request("/reports/1", "203.0.113.7", "7");
    let running = [
        super::send(&app, report()).await,
        super::send(&app, report()).await,
    ];
    let refused = super::send(&app, report()).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    // Two were charged, and the address has paid for the third as well.
    for (limit, id, most) in [
        ("rate", "7", 28),
        ("month", "7", 9_998),
        ("address", "203.0.113.7", 97),
    ] {
        assert_eq!(
            bucket(&limiter, limit, id).await.remaining(),
            Some(most),
            "{limit}"
        );
    }
    // Fast requests go on, and so do the reports of others.
    for request in [
        request("/items", "203.0.113.7", "7"),
        request("/reports/1", "203.0.113.7", "8"),
    ] {
        assert_eq!(super::send(&app, request).await.status(), StatusCode::OK);
    }
    drop(running);
    assert_eq!(super::send(&app, report()).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn each_limit_refuses_what_it_is_for() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter.clone());
    // An account in a hurry.
    let items = || request("/items", "203.0.113.7", "7");
    assert_eq!(super::count(&app, 31, items, [200, 429]).await, [30, 1]);
    // An address with many accounts: it has 69 requests left.
    let mut statuses = Vec::new();
    for account in 100..170 {
        let request = request("/items", "203.0.113.7", &account.to_string());
        statuses.push(super::send(&app, request).await.status());
    }
    assert_eq!(
        statuses
            .iter()
            .filter(|status| **status == StatusCode::OK)
            .count(),
        69
    );
    // A month that is used up.
    let month = limiter.limit("month").unwrap();
    assert!(month.cost(10_000).spend("9").await.unwrap().allowed());
    let refused = super::send(&app, request("/items", "203.0.113.8", "9")).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(bucket(&limiter, "rate", "9").await.remaining(), Some(30));
}
