//! What is logged, and how often.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use http::{Request, StatusCode};
use tokio::time::advance;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    backend::{
        Backend, BackendError, async_trait,
        custom::{Batch, Outcome},
    },
    clock::ManualClock,
    id::IdFormat,
    key::ExtensionId,
    limit::LimitName,
    rule::OnMissing,
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, Log, OnEvent, from_ip, limiter, send, text};

/// Sends five requests without a peer, and returns their statuses.
async fn statuses_without_a_peer(rule: Rule) -> Vec<StatusCode> {
    let layer = RateLimitLayer::with_limiter(limiter(&ManualClock::default())).rule(rule);
    let mut statuses = Vec::new();
    for _ in 0..5 {
        let request = Request::new(http_body_util::Full::<bytes::Bytes>::default());
        statuses.push(layer.layer(Hello).oneshot(request).await.unwrap().status());
    }
    statuses
}

#[tokio::test]
async fn server_that_hides_its_peers_is_told_once_whatever_becomes_of_requests() {
    for (on_missing, status, consequence) in [
        (
            OnMissing::Refuse,
            StatusCode::INTERNAL_SERVER_ERROR,
            "requests are refused, because they have no valid id",
        ),
        (
            OnMissing::Skip,
            StatusCode::OK,
            "requests are not limited, because they have no valid id",
        ),
        (
            OnMissing::Shared,
            StatusCode::OK,
            "requests share one bucket, because they have no valid id",
        ),
    ] {
        let (log, _guard) = Log::capture();
        let rule = Rule::new("requests", ClientIp::peer()).on_missing(on_missing);
        assert_eq!(statuses_without_a_peer(rule).await, [status; 5]);
        assert_eq!(log.count(consequence), 1);
        assert_eq!(log.count("into_make_service_with_connect_info"), 1);
    }
}

#[tokio::test]
async fn id_that_the_server_makes_wrongly_is_told_to_nobody_but_what_is_wrong_is() {
    #[derive(Clone)]
    struct User(&'static str);

    let (log, _guard) = Log::capture();
    let name = LimitName::new("l", 1, IdFormat::RegId);
    let limits = Limits::builder()
        .limit(name, Limit::per_minute(9))
        .build()
        .unwrap();
    let rule = Rule::new("l", ExtensionId::new(|user: &User| user.0));
    let layer = RateLimitLayer::with_limiter(Limiter::new(limits, MemoryBackend::new())).rule(rule);
    for _ in 0..3 {
        let mut request = from_ip("203.0.113.7");
        request.extensions_mut().insert(User("internal-7"));
        let response = layer.layer(Hello).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!text(response).await.contains("internal-7"));
    }
    assert_eq!(log.count("its value is not an id in the format regId"), 1);
    assert_eq!(log.count("internal-7"), 0);
}

/// A backend that answers the sixth batch and all after it.
#[derive(Debug, Default)]
struct Flaky {
    inner: MemoryBackend,
    batches: AtomicU32,
}

#[async_trait]
impl Backend for Flaky {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        match self.batches.fetch_add(1, Ordering::Relaxed) {
            0..5 => Err(BackendError::unavailable("connection refused")),
            _ => self.inner.apply(batch).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn backend_is_told_of_when_it_fails_and_when_it_recovers() {
    let (log, _guard) = Log::capture();
    let limits = Limits::builder()
        .limit("requests", Limit::per_minute(9))
        .build()
        .unwrap();
    let layer = RateLimitLayer::with_limiter(Limiter::new(limits, Flaky::default()))
        .rule(Rule::new("requests", ClientIp::peer()));
    for _ in 0..8 {
        send(&layer, "203.0.113.7").await;
        advance(Duration::from_secs(1)).await;
    }
    for told in [
        "rate limits cannot be decided",
        "connection refused",
        "rate limits can be decided again",
    ] {
        assert_eq!(log.count(told), 1, "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn subscriber_may_send_requests_when_a_layer_fails_and_recovers() {
    let limits = Limits::builder()
        .limit("requests", Limit::per_minute(9))
        .build()
        .unwrap();
    let layer = RateLimitLayer::with_limiter(Limiter::new(limits, Flaky::default()))
        .rule(Rule::new("requests", ClientIp::peer()));
    let lines = Arc::<AtomicU32>::default();
    let (caller, count) = (layer.clone(), Arc::clone(&lines));
    let _guard = tracing::subscriber::set_default(OnEvent(move || {
        count.fetch_add(1, Ordering::Relaxed);
        // These fail until the last one is decided, while the failure is being logged.
        for _ in 0..5 {
            let sent = send(&caller, "203.0.113.7").now_or_never();
            assert!(sent.is_some(), "it need not wait");
        }
    }));
    for _ in 0..8 {
        send(&layer, "203.0.113.7").await;
        advance(Duration::from_secs(1)).await;
    }
    assert_eq!(lines.load(Ordering::Relaxed), 2);
}

#[test]
fn layer_that_limits_nobody_is_told_once() {
    let (log, _guard) = Log::capture();
    let limits = Limits::builder().limit("on", Limit::per_minute(1));
    let limiter = || Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let idle = RateLimitLayer::with_limiter(limiter());
    for _ in 0..3 {
        let _ = idle.layer(Hello);
    }
    assert_eq!(
        log.count("a RateLimitLayer without rules limits nothing"),
        1
    );
    // One that has nothing but a deny list does something.
    let _ = RateLimitLayer::with_limiter(limiter())
        .deny_if("all", |_: &http::request::Parts| true)
        .layer(Hello);
    assert_eq!(
        log.count("a RateLimitLayer without rules limits nothing"),
        1
    );
}
