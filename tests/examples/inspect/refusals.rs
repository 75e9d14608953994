//! What cannot be answered, and why.

use http::{Method, StatusCode};
use tollgate::Limiter;

use super::server::{Admin, limits};
use crate::support::store::{Fate, Store};

/// A request, and the status, the code and a part of the message that it gets.
const MISTAKES: [(Method, &str, u16, &str, &str); 11] = [
    (
        Method::GET,
        "/buckets/others/x",
        404,
        "unknown_limit",
        KNOWN,
    ),
    (
        Method::DELETE,
        "/buckets/others/x",
        404,
        "unknown_limit",
        KNOWN,
    ),
    (
        Method::GET,
        "/buckets/accounts/x",
        400,
        "invalid_id",
        "format regId",
    ),
    (
        Method::DELETE,
        "/buckets/accounts/07",
        400,
        "invalid_id",
        "format regId",
    ),
    (
        Method::GET,
        "/buckets/ranges/10.0.0.1",
        400,
        "invalid_id",
        "limit `ranges`: ",
    ),
    (
        Method::GET,
        "/buckets/any/%FF",
        400,
        "invalid_path",
        "in UTF-8",
    ),
    (
        Method::GET,
        "/buckets/any",
        404,
        "not_found",
        "/buckets/{limit}/{id}",
    ),
    (
        Method::GET,
        "/buckets/any/",
        404,
        "not_found",
        "/buckets/{limit}/{id}",
    ),
    (Method::GET, "/", 404, "not_found", "there are /limits"),
    (
        Method::POST,
        "/limits",
        405,
        "method_not_allowed",
        "GET /limits",
    ),
    (
        Method::PUT,
        "/buckets/any/x",
        405,
        "method_not_allowed",
        "GET or DELETE",
    ),
];

const KNOWN: &str = "known are accounts, any";

#[tokio::test]
async fn mistakes_are_told_with_what_to_change() {
    let admin = Admin::start().await;
    for (method, path, status, code, text) in MISTAKES {
        let (answered, body) = admin.ask(method, path).await;
        assert_eq!(answered.as_u16(), status, "{path}: {body}");
        assert_eq!(body["error"]["code"], code, "{path}");
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains(text), "{path}: {message}");
    }
}

#[tokio::test]
async fn store_that_is_away_is_told() {
    let limiter = Limiter::new(limits().build().unwrap(), Store::new(Fate::Away));
    let admin = Admin::of(limiter).await;
    for method in [Method::GET, Method::DELETE] {
        for path in ["/buckets/any/x", "/buckets/tiers/x"] {
            let (status, body) = admin.ask(method.clone(), path).await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(body["error"]["code"], "backend_unavailable");
        }
    }
    // What needs no store is answered.
    assert_eq!(admin.get("/limits").await.0, StatusCode::OK);
    assert_eq!(admin.get("/buckets/any/vip").await.0, StatusCode::OK);
}
