//! Events of decisions: what they say, and that they say no id if told so.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    id::IdFormat,
    key::{Everyone, ExtensionId},
    limit::LimitName,
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, Log, from_ip};

#[derive(Clone)]
struct User(&'static str);

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
