//! Why a request was refused.

use http::{HeaderMap, Request, StatusCode};
use serde_json::{Value, json};
use tollgate::{RateLimitLayer, Rule, Transaction, key::HeaderId};
use tower::{Layer, ServiceExt};

use super::server::Admin;
use crate::support::Hello;

/// A layer with references, by the header `x-account`.
fn layer(admin: &Admin, account: HeaderId) -> RateLimitLayer {
    RateLimitLayer::with_limiter(admin.limiter.clone())
        .rule(Rule::new("any", account))
        .keep_refusals(&admin.refusals)
}

async fn send(layer: &RateLimitLayer, account: &str) -> (StatusCode, HeaderMap) {
    let request = Request::builder().header("x-account", account);
    let response = layer.layer(Hello).oneshot(request.body(()).unwrap()).await;
    let (head, _) = response.unwrap().into_parts();
    (head.status, head.headers)
}

/// Exhausts the bucket of a client, which is then refused once.
async fn refuse(admin: &Admin, layer: &RateLimitLayer, account: &str) {
    let all = Transaction::new("any", account).cost(20);
    admin.limiter.spend(&all).await.unwrap();
    let (status, _) = send(layer, account).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
}

async fn list(admin: &Admin, query: &str) -> Vec<Value> {
    let (status, answer) = admin.get(&format!("/refusals{query}")).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    answer.as_array().unwrap().clone()
}

#[tokio::test]
async fn refusal_is_found_by_its_reference_with_the_bucket_then_and_now() {
    let admin = Admin::start().await;
    let layer = layer(&admin, HeaderId::new("x-account").shown());
    refuse(&admin, &layer, "alice").await;
    let reference = list(&admin, "").await[0]["reference"].clone();
    let reference = reference.as_str().unwrap();
    admin.delete("/buckets/any/alice").await;
    let (status, answer) = admin.get(&format!("/refusals/{reference}")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["reference"], reference);
    assert_eq!(answer["reason"], "over_limit");
    assert_eq!(answer["retry_after_us"], 100_000);
    let charge = &answer["charges"][0];
    let expected = [
        json!("any"),
        json!("alice"),
        json!(1),
        json!("10 per 1s, 20 at once"),
    ];
    let shown = ["limit", "id", "cost", "summary"].map(|field| charge[field].clone());
    assert_eq!(shown, expected);
    assert_eq!(charge["override"], false);
    let then = json!({
        "remaining": 0, "next_after_us": 100_000, "reset_after_us": 2_000_000, "source": "store",
    });
    assert_eq!(charge["then"], then);
    assert_eq!(charge["now"]["remaining"], 20);
    assert_eq!(charge["now"]["key"], "any:alice");
    // As somebody may have noted it.
    let shouted = format!("/refusals/{}", reference.to_uppercase());
    assert_eq!(admin.get(&shouted).await.1["reference"], reference);
}

#[tokio::test]
async fn refusals_are_listed_by_client_and_by_limit_latest_first() {
    let admin = Admin::start().await;
    assert!(list(&admin, "").await.is_empty());
    let layer = layer(&admin, HeaderId::new("x-account").shown());
    for account in ["alice", "bob", "a&b"] {
        refuse(&admin, &layer, account).await;
    }
    send(&layer, "alice").await;
    let clients = |listed: Vec<Value>| -> Vec<String> {
        let ids = listed
            .iter()
            .map(|one| one["charges"][0]["id"].as_str().unwrap().to_owned());
        ids.collect()
    };
    assert_eq!(
        clients(list(&admin, "").await),
        ["alice", "a&b", "bob", "alice"]
    );
    assert_eq!(clients(list(&admin, "?client=bob").await), ["bob"]);
    assert_eq!(clients(list(&admin, "?client=a%26b").await), ["a&b"]);
    assert_eq!(
        clients(list(&admin, "?client=alice").await),
        ["alice", "alice"]
    );
    assert_eq!(clients(list(&admin, "?limit=any&last=1").await), ["alice"]);
    assert!(list(&admin, "?limit=accounts").await.is_empty());
    assert!(list(&admin, "?client=carol").await.is_empty());
}

#[tokio::test]
async fn secret_client_is_a_hash_and_found_by_its_secret() {
    let admin = Admin::start().await;
    let layer = layer(&admin, HeaderId::new("x-account"));
    refuse(&admin, &layer, "sk-12345").await;
    let listed = list(&admin, "?client=sk-12345").await;
    let id = listed[0]["charges"][0]["id"].as_str().unwrap();
    assert!(id.starts_with("redacted-"), "{id}");
    let reference = listed[0]["reference"].as_str().unwrap();
    let (_, answer) = admin.get(&format!("/refusals/{reference}")).await;
    assert!(!answer.to_string().contains("12345"), "{answer}");
    assert!(answer["charges"][0].get("now").is_none());
    assert!(list(&admin, "?client=sk-12346").await.is_empty());
}
