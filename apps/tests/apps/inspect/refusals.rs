//! Requests that are refused, with the reasons.

use http::{Method, StatusCode};
use tollgate::Limiter;

use super::server::{Admin, limits};
use crate::support::store::{Fate, Store};

/// Requests, and the status, the code and a part of the message that each gets.
const MISTAKES: &str = "
GET /buckets/others/x | 404 | unknown_limit | known are accounts, any
DELETE /buckets/others/x | 404 | unknown_limit | known are accounts, any
GET /buckets/accounts/x | 400 | invalid_id | format regId
DELETE /buckets/accounts/07 | 400 | invalid_id | format regId
GET /buckets/ranges/10.0.0.1 | 400 | invalid_id | limit `ranges`:
GET /buckets/any/%FF | 400 | invalid_path | in UTF-8
GET /buckets/any | 404 | not_found | /buckets/{limit}/{id}
GET /buckets/any/ | 404 | not_found | /buckets/{limit}/{id}
GET / | 404 | not_found | there are /limits
POST /limits | 405 | method_not_allowed | GET /limits
PUT /buckets/any/x | 405 | method_not_allowed | GET or DELETE
PUT /blocks/unpaid/7 | 400 | invalid_query | write `?for=24h`
PUT /blocks/unpaid/7?for=long | 400 | invalid_query | long
PUT /blocks/unpaid/alice?for=1h | 400 | invalid_id | regId
PUT /blocks/others/7?for=1h | 404 | unknown_limit | unpaid
PUT /blocks/any/7?for=1h | 400 | invalid_request | not a list of blocked clients
";

#[tokio::test]
async fn mistakes_are_refused_with_a_remedy() {
    let admin = Admin::start().await;
    for line in MISTAKES.trim().lines() {
        let [request, status, code, text] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let (method, path) = request.split_once(' ').unwrap();
        let (answered, body) = admin.ask(method.parse().unwrap(), path).await;
        assert_eq!(answered.as_str(), status, "{path}: {body}");
        assert_eq!(body["error"]["code"], code, "{path}");
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains(text), "{path}: {message}");
    }
}

#[tokio::test]
async fn unavailable_store_is_reported() {
    let limiter = Limiter::new(limits().build().unwrap(), Store::new(Fate::NoReply));
    let admin = Admin::of(limiter).await;
    for method in [Method::GET, Method::DELETE] {
        for path in ["/buckets/any/x", "/buckets/tiers/x"] {
            let (status, body) = admin.ask(method.clone(), path).await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(body["error"]["code"], "backend_unavailable");
        }
    }
    // Requests that need no store are answered.
    assert_eq!(admin.get("/limits").await.0, StatusCode::OK);
    assert_eq!(admin.get("/buckets/any/vip").await.0, StatusCode::OK);
}
