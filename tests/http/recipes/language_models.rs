include!("pages/language_models.rs");

use http_body_util::BodyExt;
use serde_json::json;

use crate::support::bucket;

fn call(key: &str, prompt: &str) -> Request {
    let request = Request::post("/chat").header(AUTHORIZATION, format!("Bearer key-of-{key}"));
    let body = json!({"prompt": prompt, "max_tokens": 100}).to_string();
    request.body(body.into()).unwrap()
}

async fn left(limiter: &Limiter, limit: &str) -> Option<u32> {
    bucket(limiter, limit, "alice").await.remaining()
}

#[tokio::test]
async fn call_is_charged_what_it_used() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter.clone());
    let response = super::send(&app, call("alice", "who is it")).await;
    assert_eq!(left(&limiter, "calls").await, Some(3));
    assert_eq!(left(&limiter, "tokens").await, Some(10_000 - 103));
    let answer = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(answer, "who is it");
    for (limit, most) in [
        ("requests", 59),
        ("calls", 4),
        ("tokens", 9_996),
        ("month", 999_996),
    ] {
        assert_eq!(left(&limiter, limit).await, Some(most), "{limit}");
    }

    // A client that leaves after one of three words.
    let mut body = super::send(&app, call("alice", "who is it"))
        .await
        .into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    for (limit, most) in [("calls", 4), ("tokens", 9_994), ("month", 999_994)] {
        assert_eq!(left(&limiter, limit).await, Some(most), "{limit}");
    }
}

#[tokio::test]
async fn fifth_call_at_once_is_refused_and_costs_nothing() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter.clone());
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(super::send(&app, call("alice", "who is it")).await);
    }
    let tokens = left(&limiter, "tokens").await;
    let refused = super::send(&app, call("alice", "who is it")).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(left(&limiter, "tokens").await, tokens);
    assert_eq!(left(&limiter, "requests").await, Some(56));
    let other = super::send(&app, call("bob", "who is it")).await;
    assert_eq!(other.status(), StatusCode::OK);
    drop(running);
    let next = super::send(&app, call("alice", "who is it")).await;
    assert_eq!(next.status(), StatusCode::OK);
}

#[tokio::test]
async fn calls_without_a_key_or_a_sound_body_cost_nothing() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter.clone());
    let unknown = super::send(&app, call("nobody", "who is it")).await;
    assert_eq!(unknown.status(), StatusCode::UNAUTHORIZED);
    for (body, status) in [
        (Body::from("x"), StatusCode::BAD_REQUEST),
        (
            Body::from(vec![b' '; MAX_BODY + 1]),
            StatusCode::PAYLOAD_TOO_LARGE,
        ),
    ] {
        let (head, _) = call("alice", "").into_parts();
        let response = super::send(&app, Request::from_parts(head, body)).await;
        assert_eq!(response.status(), status);
    }
    for (limit, most) in [("requests", 60), ("tokens", 10_000)] {
        assert_eq!(left(&limiter, limit).await, Some(most), "{limit}");
    }
}
