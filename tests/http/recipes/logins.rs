include!("pages/logins.rs");

use std::sync::atomic::{AtomicBool, Ordering};

use axum::{body::Body, extract::Request};
use futures_util::future::join_all;
use tollgate::{
    MemoryBackend,
    backend::{Backend, BackendError, async_trait},
    decision::Outcome,
    transaction::{Batch, Operation},
};
use tower::ServiceExt;

use crate::support::bucket;

const IP: &str = "203.0.113.7";

fn post_body(ip: &str, body: String) -> Request {
    let request = super::from_ip(ip).method("POST").uri("/login");
    let request = request.header("content-type", "application/json");
    request.body(Body::from(body)).unwrap()
}

fn attempt(ip: &str, user: &str, password: &str) -> Request {
    let body = serde_json::json!({"user": user, "password": password});
    post_body(ip, body.to_string())
}

async fn status_of(app: &Router, user: &str, password: &str) -> StatusCode {
    super::send(app, attempt(IP, user, password)).await.status()
}

/// A store that has to be waited for, and that fails to give back on order.
#[derive(Debug, Default)]
struct Slow {
    memory: MemoryBackend,
    fails_to_give_back: AtomicBool,
}

#[async_trait]
impl Backend for Slow {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        tokio::task::yield_now().await;
        let gives_back = matches!(batch.operation, Operation::Refund | Operation::Reset);
        match gives_back && self.fails_to_give_back.load(Ordering::Relaxed) {
            true => Err(BackendError::unavailable("no answer")),
            false => self.memory.apply(batch).await,
        }
    }
}

fn slow_app(fails_to_give_back: bool) -> (Router, Limiter) {
    let store = Slow::default();
    store
        .fails_to_give_back
        .store(fails_to_give_back, Ordering::Relaxed);
    let limiter = Limiter::new(limits().unwrap(), store);
    (app(limiter.clone()).unwrap(), limiter)
}

/// How many more failures an address may have.
async fn left(limiter: &Limiter) -> Option<u32> {
    let bucket = bucket(limiter, "failed-logins-per-ip", IP).await;
    bucket.remaining()
}

#[tokio::test]
async fn locked_user_locks_out_nobody_else_at_the_address() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter.clone()).unwrap();
    for _ in 0..5 {
        assert_eq!(status_of(&app, "alice", "guess").await, 401);
    }
    for _ in 0..16 {
        assert_eq!(status_of(&app, "alice", "wonderland").await, 429);
    }
    assert_eq!(status_of(&app, "bob", "builder").await, 200);
    assert_eq!(
        left(&limiter).await,
        Some(15),
        "five failures, nothing else"
    );
}

#[tokio::test]
async fn office_is_locked_out_by_wrong_passwords_only() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter.clone()).unwrap();
    for _ in 0..100 {
        assert_eq!(status_of(&app, "alice", "wonderland").await, 200);
        for malformed in ["", "{", "[]", r#"{"user": "alice"}"#] {
            let answer = super::send(&app, post_body(IP, malformed.to_owned())).await;
            assert!(matches!(answer.status().as_u16(), 400 | 422));
        }
        for nobody in [
            "",
            "  ",
            "\u{ab}missing\u{bb}",
            &"x".repeat(LONGEST_NAME + 1),
        ] {
            assert_eq!(status_of(&app, nobody, "guess").await, 400, "{nobody:?}");
        }
    }
    assert_eq!(left(&limiter).await, Some(20));
    assert_eq!(status_of(&app, "bob", "builder").await, 200);
}

#[tokio::test]
async fn of_guesses_sent_at_once_as_many_get_to_the_password_as_one_after_the_other() {
    let (app, _) = slow_app(false);
    let one_user = join_all((0..40).map(|_| status_of(&app, "alice", "guess"))).await;
    let failed = one_user.iter().filter(|status| **status == 401).count();
    assert_eq!(failed, 5);
    let (app, _) = slow_app(false);
    let names: Vec<_> = (0..40).map(|i| format!("user-{i}")).collect();
    let one_address = join_all(names.iter().map(|name| status_of(&app, name, "guess"))).await;
    let failed = one_address.iter().filter(|status| **status == 401).count();
    assert_eq!(failed, 20);
}

#[tokio::test]
async fn guess_is_not_free_if_its_client_leaves_before_the_answer() {
    let (app, limiter) = slow_app(false);
    for i in 0..20 {
        // Each client leaves a little later than the one before.
        let guess = attempt(IP, &format!("user-{i}"), "guess");
        let mut answer = Box::pin(app.clone().oneshot(guess));
        for _ in 0..i % 3 + 1 {
            assert!(futures_util::poll!(&mut answer).is_pending(), "{i}");
            tokio::task::yield_now().await;
        }
        drop(answer);
    }
    while left(&limiter).await != Some(0) {
        tokio::task::yield_now().await;
    }
    assert_eq!(status_of(&app, "bob", "builder").await, 429);
}

#[tokio::test]
async fn right_password_is_accepted_if_the_store_fails_afterwards() {
    let (app, _) = slow_app(true);
    assert_eq!(status_of(&app, "alice", "guess").await, 401);
    assert_eq!(status_of(&app, "alice", "wonderland").await, 200);
}

#[cfg(feature = "failure-policy")]
#[tokio::test]
async fn only_failures_count_while_the_store_is_away() {
    use tollgate::backend::FailurePolicy;

    use crate::support::store::{Fate, Store};

    let app = app(Limiter::new(
        limits().unwrap(),
        FailurePolicy::new(Store::new(Fate::Away)),
    ))
    .unwrap();
    for _ in 0..100 {
        assert_eq!(status_of(&app, "alice", "wonderland").await, 200);
    }
    for status in [401, 401, 401, 401, 401, 429] {
        assert_eq!(status_of(&app, "alice", "guess").await, status);
    }
    assert_eq!(status_of(&app, "bob", "builder").await, 200);
}

#[tokio::test]
async fn success_resets_its_user_and_not_its_address() {
    let (limiter, _) = super::limiter(limits());
    let app = app(limiter.clone()).unwrap();
    for _ in 0..3 {
        for _ in 0..4 {
            assert_eq!(status_of(&app, "alice", "guess").await, 401);
        }
        assert_eq!(status_of(&app, "alice", "wonderland").await, 200);
    }
    assert_eq!(left(&limiter).await, Some(8));
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
    assert_eq!(refused.headers()["retry-after"], "900");
    clock.advance(QUARTER);
    let right = || attempt("203.0.113.9", "alice", "wonderland");
    assert_eq!(super::send(&app, right()).await.status(), 200);
}
