//! Stores that do not answer, and limits in shadow mode: what clients see of them.

use bytes::Bytes;
use http::{Request, StatusCode, request::Parts};
use http_body_util::Full;
use proptest::{collection::vec, option, prelude::*, sample::select};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    backend::{Backend, FailurePolicy},
    clock::ManualClock,
    key::{Everyone, HeaderId},
    limit::{LimitName, LimitsBuilder},
    transaction::OnFailure,
};
use tower::{Layer, ServiceExt};

use crate::support::{
    Hello, Log, assessed, bucket, from_ip, send,
    store::{Fate, Store},
};

const IP: &str = "203.0.113.7";

#[tokio::test]
async fn request_that_cannot_be_decided_is_refused_and_the_outage_is_logged_once() {
    let (log, _guard) = Log::capture();
    for fate in [Fate::NoReply, Fate::NoAnswers] {
        let limits = Limits::builder().limit("a", Limit::per_minute(9));
        let limiter = Limiter::new(limits.build().unwrap(), Store::new(fate));
        let layer = RateLimitLayer::with_limiter(limiter).rule(Rule::new("a", Everyone));
        for _ in 0..3 {
            let response = send(&layer, IP).await;
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers()["retry-after"], "1");
        }
    }
    assert_eq!(
        log.count("rate limits cannot be decided"),
        2,
        "once for each layer: {log:?}"
    );
}

/// A layer with a store that does not answer, and the statuses of three requests through it.
async fn statuses_of(backend: impl Backend, rule: Rule) -> [u16; 3] {
    let pro = LimitName::from("pro").on_failure(OnFailure::Allow);
    let limits = Limits::builder()
        .limit("free", Limit::per_hour(2))
        .limit(pro, Limit::per_hour(2));
    let limiter = Limiter::new(limits.build().unwrap(), backend);
    let layer = RateLimitLayer::with_limiter(limiter).rule(rule);
    let mut statuses = [0; 3];
    for status in &mut statuses {
        *status = send(&layer, IP).await.status().as_u16();
    }
    statuses
}

async fn statuses(rule: Rule) -> [u16; 3] {
    statuses_of(FailurePolicy::new(Store::new(Fate::NoReply)), rule).await
}

#[tokio::test]
async fn failure_mode_of_a_rule_replaces_that_of_its_limit() {
    let rule = |limit: &str| Rule::new(limit, Everyone);
    assert_eq!(statuses(rule("free")).await, [200, 200, 429]);
    assert_eq!(statuses(rule("pro")).await, [200; 3]);
    for (on_failure, expected) in [
        (OnFailure::Refuse, [503; 3]),
        (OnFailure::Allow, [200; 3]),
        (OnFailure::Local, [200, 200, 429]),
    ] {
        assert_eq!(
            statuses(rule("free").on_failure(on_failure)).await,
            expected
        );
        assert_eq!(statuses(rule("pro").on_failure(on_failure)).await, expected);
    }
    // Of alternatives, the one that applies.
    let by_key = Rule::new("pro", HeaderId::new("x-key")).on_failure(OnFailure::Refuse);
    let expected = [200, 200, 429];
    assert_eq!(statuses(by_key.or_else(rule("free"))).await, expected);
}

#[tokio::test]
async fn correction_that_passes_without_the_store_is_not_given_back_there() {
    let store = Store::default();
    let name = LimitName::from("requests").on_failure(OnFailure::Allow);
    let limits = Limits::builder().limit(name, Limit::per_hour(100));
    let policy = FailurePolicy::new(store.clone());
    let limiter = Limiter::new(limits.build().unwrap(), policy);
    let limiter = limiter.with_clock(ManualClock::default());
    let rule = Rule::new("requests", Everyone).cost(20);
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let assessment = assessed(&layer, from_ip(IP)).await.unwrap();
    let assessed = assessment.of("requests").unwrap();
    store.set_fate(Fate::NoReply);
    assessed.settle(50).await.unwrap();
    store.set_fate(Fate::Works);
    assessed.settle(30).await.unwrap();
    let left = bucket(&limiter, "requests", "everyone").await.remaining();
    assert_eq!(left, Some(70));
}

fn shadow_limits(closed: Limit) -> LimitsBuilder {
    Limits::builder()
        .limit("requests", Limit::per_hour(3))
        .limit("accounts", Limit::per_hour(2))
        .limit("closed", closed)
        .override_for("accounts", "666", Limit::BLOCKED)
}

fn shadow_layer(limits: &LimitsBuilder, backend: impl Backend) -> RateLimitLayer {
    let limiter = Limiter::new(limits.build().unwrap(), backend);
    let limiter = limiter.with_clock(ManualClock::default());
    let cost = |parts: &Parts| {
        let cost = parts.headers.get("x-cost");
        let cost = cost.and_then(|cost| cost.to_str().ok());
        cost.and_then(|cost| cost.parse().ok()).unwrap_or(1)
    };
    RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("requests", Everyone).cost_by(cost))
        .rule(Rule::new("accounts", HeaderId::new("x-account")).charge_if(|_| true))
        .rule(Rule::new("closed", ClientIp::peer()))
}

fn shadow_request(account: Option<&str>, cost: Option<u32>) -> Request<Full<Bytes>> {
    let mut request = from_ip(IP);
    if let Some(account) = account {
        let account = account.parse().unwrap();
        request.headers_mut().insert("x-account", account);
    }
    if let Some(cost) = cost {
        request.headers_mut().insert("x-cost", cost.into());
    }
    if account == Some("nowhere") {
        request.extensions_mut().clear();
    }
    request
}

proptest! {
    #[test]
    fn shadow_changes_no_status(
        requests in vec(
            (option::of(select(vec!["1", "2", "666", "nowhere"])), option::of(0_u32..6)),
            1..40,
        ),
        is_broken: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let limits = shadow_limits(Limit::BLOCKED).shadow(true);
            let layer = if is_broken { shadow_layer(&limits, Store::new(Fate::NoReply)) } else { shadow_layer(&limits, MemoryBackend::new()) };
            for (account, cost) in requests {
                let request = shadow_request(account, cost);
                let response = layer.layer(Hello).oneshot(request).await.unwrap();
                assert_eq!(response.status(), StatusCode::OK);
                assert!(!response.headers().contains_key("retry-after"));
            }
        });
    }
}
