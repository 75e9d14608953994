include!("pages/concurrency.rs");

use axum::body::Body;
use http::{Request, StatusCode};

use super::{limiter, send};

#[tokio::test]
async fn two_exports_of_an_account_run_at_once() {
    let (limiter, _) = limiter(limits());
    let app = app(limiter.clone());
    let request = |account| {
        let request = Request::builder()
            .uri("/export")
            .header("x-account-id", account);
        request.body(Body::empty()).unwrap()
    };
    let running = [
        send(&app, request("7")).await,
        send(&app, request("7")).await,
    ];
    let third = send(&app, request("7")).await;
    assert_eq!(third.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(third.headers()["retry-after"], "1");
    let exports = limiter.limit("exports").unwrap();
    assert!(!export(&exports, "7").await.unwrap());
    assert!(export(&exports, "8").await.unwrap());
    drop(running);
    assert!(export(&exports, "7").await.unwrap());
    assert_eq!(send(&app, request("7")).await.status(), StatusCode::OK);
}
