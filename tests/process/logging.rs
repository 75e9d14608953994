//! Events are logged, and not too often.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    panic,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use http::{Request, StatusCode, request::Parts};
#[cfg(feature = "failure-policy")]
use tollgate::backend::{DenyCache, FailurePolicy};
#[cfg(all(feature = "reload", feature = "yaml"))]
use tollgate::reload::Reloader;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    clock::ManualClock,
    id::IdFormat,
    key::{Everyone, ExtensionId, KeyExtractor},
    limit::{LimitName, LimitsBuilder},
    rule::OnMissing,
};
use tower::{Layer, ServiceExt};
use tracing::Level;

use crate::{
    alone,
    support::{
        Hello, Log, from_ip, limiter,
        store::{Fate, Store},
        text,
    },
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
async fn server_without_peer_addresses_is_logged_once() {
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
async fn malformed_server_id_is_logged_without_its_value() {
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
fn layer_without_rules_is_logged_once() {
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

/// Only a panic of tokio shows whether a runtime has a timer. The test has a process of its own, because it sets the panic hook.
#[test]
fn runtime_without_a_timer_is_an_error_without_a_logged_panic() {
    if !alone("logging::runtime_without_a_timer_is_an_error_without_a_logged_panic") {
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

/// Ids of clients, which a redacted log must not have. The last one is in no limit's format.
const CLIENTS: [&str; 3] = ["424242", "77777777", "a-secret@example.com"];

/// Limits whose ids are redacted. The first client has an override.
fn redacted() -> LimitsBuilder {
    let limit = |name, number| LimitName::new(name, number, IdFormat::RegId);
    Limits::builder()
        .redact_ids(true)
        .limit(limit("l", 6), Limit::per_hour(1000))
        .limit(limit("permits", 7), Limit::concurrent(1))
        .override_for("l", CLIENTS[0], Limit::per_hour(2))
}

/// Sends requests of all clients through layers of several kinds.
async fn send_all(limiter: &Limiter) {
    let by_user = ExtensionId::new(|user: &User| user.0);
    let by_closure = |request: &Parts| Some(request.extensions.get::<User>()?.0.to_owned());
    let rule = || Rule::new("l", by_user.clone());
    let layer = |rule| RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let layers = [
        layer(rule()),
        layer(rule().refund_if(|_| true)),
        layer(rule().cost_by(|_| 20)),
        layer(rule().settle_by(|_| 2000)),
        layer(Rule::new("l", by_closure)),
        layer(Rule::new("l", by_user.clone().or_else(by_closure))),
        layer(Rule::new("permits", by_closure)).extensions(true),
    ];
    for user in CLIENTS {
        for layer in &layers {
            for _ in 0..3 {
                let mut request = from_ip("10.0.0.1");
                request.extensions_mut().insert(User(user));
                let _ = layer.layer(Hello).oneshot(request).await.unwrap();
            }
        }
    }
}

/// Runs every operation of a limiter for all clients, and logs the errors as a service may.
async fn ask_all(limiter: &Limiter) {
    for id in CLIENTS {
        let one = Transaction::new("l", id);
        let twice = [one, one];
        let errors = [
            limiter.spend(&one).await.err(),
            limiter.spend(&one.cost(2000)).await.err(),
            limiter.spend_batch(&twice).await.err(),
            limiter.peek(&one).await.err(),
            limiter.refund(&one).await.err(),
            limiter.reset(&twice[..1]).await.err(),
        ];
        for error in errors.into_iter().flatten() {
            tracing::error!(%error, "a decision has failed");
        }
    }
}

/// Takes permits, and loses them: a bucket that is reset has none.
async fn lose_permits(limiter: &Limiter) {
    let permits = limiter.limit("permits").unwrap();
    for id in &CLIENTS[..2] {
        let held = permits.enter(id).await.unwrap().unwrap();
        permits.reset(id).await.unwrap();
        while held.is_held() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Lets limits be reloaded from files whose overrides have mistakes.
#[cfg(all(feature = "reload", feature = "yaml"))]
async fn reload_all(limiter: &Limiter) {
    let folder = crate::support::Folder::new();
    let recipe = redacted().overrides_file(folder.path("redacted.yml"));
    for override_of in [
        "- l: {burst: 20, count: 9, period: 1s, ids: [424242]}",
        "- l: {burst: 20, count: 9, period: 1s, ids: [77777777, a-secret@example.com]}",
        "- l: {burst: 20, count: 9, period: 1s, ids: [{id: 77777777, id: 77777777}]}",
        "- l: {burst: 20, count: 9, period: 1s, ids: [77777777, 77777777]}",
        "- l:a-secret@example.com: {burst: 20, count: 9, period: 1s}",
        "- l:77777777: {burst: 20, count: 9, perod: 1s}",
        "- :77777777: {burst: 20, count: 9, period: 1s}",
        "- l77777777: {burst: 20, count: 9, period: 1s}",
        "77777777",
        // A cost of a rule does not fit.
        "- l:77777777: {burst: 1, count: 9, period: 1s}",
        "- l:77777777: {burst: 20, count: 9, period: 1s}",
    ] {
        folder.write("redacted.yml", override_of);
        let mut running = Box::pin(Reloader::new(limiter.clone(), recipe.clone()).run());
        let _ = tokio::time::timeout(Duration::from_secs(1), &mut running).await;
    }
}

/// The events of all levels, of decisions, refusals, outages and reloads.
#[tokio::test(start_paused = true)]
async fn redacted_ids_stand_in_no_event() {
    let (log, _guard) = Log::capture_at(Level::TRACE);
    let limits = redacted().build().unwrap();
    let limiter = Limiter::new(limits.clone(), MemoryBackend::new());
    send_all(&limiter).await;
    ask_all(&limiter).await;
    lose_permits(&limiter).await;
    assert_eq!(log.count("lost while their work goes on"), 2, "{log:?}");
    assert!(log.count("redacted-") > 0, "{log:?}");
    assert!(
        log.count("its value is not an id in the format regId") > 0,
        "{log:?}"
    );
    for fate in [Fate::Fails, Fate::NoReply, Fate::AppliesThenErrors] {
        let failing = Limiter::new(limits.clone(), Store::new(fate));
        send_all(&failing).await;
        ask_all(&failing).await;
        #[cfg(feature = "failure-policy")]
        {
            let backed = FailurePolicy::new(DenyCache::new(Store::new(fate)));
            let backed = Limiter::new(limits.clone(), backed);
            send_all(&backed).await;
            ask_all(&backed).await;
        }
    }
    #[cfg(all(feature = "reload", feature = "yaml"))]
    {
        let by_user = ExtensionId::new(|user: &User| user.0);
        let rule = Rule::new("l", by_user).cost(2);
        let _layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
        reload_all(&limiter).await;
        assert_eq!(log.count("limits were reloaded"), 1, "{log:?}");
        assert_eq!(log.count("limits were not reloaded"), 10, "{log:?}");
    }
    for id in CLIENTS {
        let start = &id[..6];
        assert_eq!(log.count(start), 0, "{start}: {log:?}");
    }
}

#[tokio::test]
async fn shadow_is_not_blamed_for_what_another_limit_denies() {
    let (log, _guard) = Log::capture_at(Level::TRACE);
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
    let (log, _guard) = Log::capture_at(Level::TRACE);
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
