//! Blocks with a reason, and their end.

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tollgate::{RateLimitLayer, Rule, key::HeaderId};
use tower::{Layer, ServiceExt};

use super::server::Admin;
use crate::support::Hello;

const REASON: &str = "this account is paused: pay the open invoice";

/// The status and the text of the answer to an account.
async fn send(admin: &Admin, account: &str) -> (StatusCode, String) {
    let layer = RateLimitLayer::with_limiter(admin.limiter.clone())
        .rule(Rule::new("unpaid", HeaderId::new("x-account").shown()));
    let request = Request::builder().header("x-account", account);
    let request = request.body(Full::<&[u8]>::default()).unwrap();
    let response = layer.layer(Hello).oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status, String::from_utf8(body.to_vec()).unwrap())
}

fn state(id: &str, ends_after_us: Option<u64>) -> Value {
    json!({
        "limit": "unpaid", "id": id, "blocked": ends_after_us.is_some(),
        "reason": ends_after_us.map(|_| REASON), "ends_after_us": ends_after_us, "override": false,
    })
}

#[tokio::test]
async fn client_is_blocked_with_the_reason_until_that_is_lifted() {
    let admin = Admin::start().await;
    let (path, day_us) = ("/blocks/unpaid/7", 86_400_000_000);
    assert_eq!(admin.get(path).await, (StatusCode::OK, state("7", None)));
    let blocked = (StatusCode::OK, state("7", Some(day_us)));
    assert_eq!(admin.put("/blocks/unpaid/7?for=24h").await, blocked);
    assert_eq!(admin.get(path).await, blocked);
    let (status, body) = send(&admin, "7").await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(body.contains(REASON), "{body}");
    assert_eq!(send(&admin, "8").await.0, StatusCode::OK);
    // A reset of what the client has used is another matter.
    admin.delete("/clients/7").await;
    assert_eq!(admin.get(path).await, blocked);
    assert_eq!(admin.delete(path).await, (StatusCode::OK, state("7", None)));
    assert_eq!(send(&admin, "7").await.0, StatusCode::OK);
}

#[tokio::test]
async fn lists_are_shown_with_their_reasons() {
    let admin = Admin::start().await;
    let lists = json!([{"limit": "unpaid", "id": "regId", "reason": REASON}]);
    assert_eq!(admin.get("/blocks").await, (StatusCode::OK, lists));
}

#[tokio::test]
async fn block_by_an_override_stays() {
    let admin = Admin::start().await;
    for (_, answer) in [
        admin.delete("/blocks/unpaid/666").await,
        admin.put("/blocks/unpaid/666?for=1s").await,
    ] {
        let shown = ["blocked", "ends_after_us", "override"].map(|field| answer[field].clone());
        assert_eq!(shown, [json!(true), json!(null), json!(true)]);
    }
}
