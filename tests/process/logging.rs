//! What is logged, and how often.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    panic,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use http::{Request, StatusCode};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    clock::ManualClock,
    id::IdFormat,
    key::{Everyone, ExtensionId},
    limit::LimitName,
    rule::OnMissing,
};
use tower::{Layer, ServiceExt};

use crate::{
    alone,
    support::{Hello, Log, from_ip, limiter, text},
};

#[derive(Clone)]
struct User(&'static str);

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

/// tokio tells only by a panic whether a runtime has a timer. In a process of its own, because panics are told to its hook.
#[test]
fn runtime_without_a_timer_is_an_error_and_no_panic_that_is_told() {
    if !alone("logging::runtime_without_a_timer_is_an_error_and_no_panic_that_is_told") {
        return;
    }
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    panic::set_hook(Box::new(|_| {
        TOLD.fetch_add(1, Ordering::SeqCst);
    }));
    let line = Limit::per_hour(1).max_wait(Duration::from_secs(3600));
    let limits = Limits::builder()
        .limit("permits", Limit::concurrent(1))
        .limit("line", line);
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let handle = |name| limiter.limit(name).unwrap();
    let without_timer = tokio::runtime::Builder::new_current_thread().build();
    without_timer.unwrap().block_on(async {
        assert!(handle("permits").enter("a").await.is_err());
        assert!(handle("line").acquire("a").await.is_ok());
        assert!(handle("line").acquire("a").await.is_err());
    });
    assert_eq!(TOLD.load(Ordering::SeqCst), 0);
    assert!(panic::catch_unwind(|| panic!("another panic")).is_err());
    assert_eq!(TOLD.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn nothing_that_goes_wrong_logs_an_id() {
    let (log, _guard) = Log::capture_at(tracing::Level::TRACE);
    let name = LimitName::new("l", 6, IdFormat::RegId);
    let limits = Limits::builder()
        .redact_ids(true)
        .limit(name, Limit::per_hour(1000))
        .override_for("l", "424242", Limit::per_hour(2));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let by_user = ExtensionId::new(|user: &User| user.0);
    let rule = || Rule::new("l", by_user.clone());
    let layer = |rule| RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let layers = [
        layer(rule()),
        layer(rule().refund_if(|_| true)),
        layer(rule().cost_by(|_| 20)),
        layer(rule().settle_by(|_| 2000)),
    ];
    for user in ["424242", "a-secret@example.com", "77777777"] {
        for layer in &layers {
            for _ in 0..3 {
                let mut request = from_ip("10.0.0.1");
                request.extensions_mut().insert(User(user));
                let _ = layer.layer(Hello).oneshot(request).await.unwrap();
            }
        }
    }
    for id in ["424242", "a-secret", "77777777"] {
        assert_eq!(log.count(id), 0, "{log:?}");
    }
    assert!(log.count("redacted-") > 0, "{log:?}");
    assert!(
        log.count("its value is not an id in the format regId") > 0,
        "{log:?}"
    );
}

#[tokio::test]
async fn shadow_is_not_blamed_for_what_another_limit_denies() {
    let (log, _guard) = Log::capture_at(tracing::Level::TRACE);
    let limits = Limits::builder()
        .limit(LimitName::from("shady").shadow(true), Limit::per_hour(9))
        .limit("requests", Limit::per_hour(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let rule = |limit: &'static str| Rule::new(limit, Everyone);
    let layer = RateLimitLayer::with_limiter(limiter)
        .rule(rule("shady"))
        .rule(rule("requests"));
    for status in [200, 429] {
        let response = layer
            .layer(Hello)
            .oneshot(from_ip("10.0.0.1"))
            .await
            .unwrap();
        assert_eq!(response.status(), status);
    }
    assert_eq!(log.count("result=\"rejected\""), 1, "{log:?}");
    assert_eq!(log.count("result=\"withheld\""), 1, "{log:?}");
}

#[tokio::test]
async fn id_is_shown_as_its_bucket_is_kept_however_it_was_written() {
    let (log, _guard) = Log::capture_at(tracing::Level::TRACE);
    let name = LimitName::new("l", 1, IdFormat::IpAddress);
    let limits = Limits::builder().limit(name, Limit::per_hour(1000));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let written = "2001:0DB8:0:0::1";
    let charged = limiter.spend(&Transaction::new("l", written)).await;
    assert!(charged.unwrap().allowed());
    let by_user = ExtensionId::new(|user: &User| user.0);
    let layer = RateLimitLayer::with_limiter(limiter).rule(Rule::new("l", by_user));
    let mut request = from_ip("10.0.0.1");
    request.extensions_mut().insert(User(written));
    let _ = layer.layer(Hello).oneshot(request).await.unwrap();
    assert_eq!(log.count("id=\"2001:db8::1\""), 2, "{log:?}");
    assert_eq!(log.count(written), 0, "{log:?}");
}
