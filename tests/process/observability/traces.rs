//! Events about decisions and changes, and the fields recorded on a request's span.

use std::time::Duration;

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::{Backend, FailurePolicy},
    clock::ManualClock,
    id::IdFormat,
    key::HeaderId,
    limit::{LimitName, LimitsBuilder},
    transaction::Mode,
};
use tower::{Layer, ServiceExt};
use tracing::{Instrument, field::Empty, info_span};

use crate::support::{
    Hello, Log,
    store::{Fate, Store},
};

fn limits() -> LimitsBuilder {
    let shadow = LimitName::from("shadow").shadow(true);
    let builder = Limits::builder().limit("two", Limit::per_hour(2));
    let builder = builder.limit(shadow, Limit::per_hour(1));
    builder.override_for("two", "spammer", Limit::BLOCKED)
}

fn limiter(limits: &LimitsBuilder, backend: impl Backend) -> Limiter {
    let limiter = Limiter::new(limits.build().unwrap(), backend);
    limiter.with_clock(ManualClock::default())
}

/// Returns the events about decisions.
fn decisions(log: &Log) -> Vec<Value> {
    let mut lines = log.lines();
    lines.retain(|line| line["fields"]["result"].is_string());
    lines
}

#[tokio::test]
async fn denials_are_logged_at_debug_and_admissions_at_trace() {
    let (log, _guard) = Log::capture_json();
    let limiter = limiter(&limits(), MemoryBackend::new());
    for limit in ["two", "two", "two", "shadow", "shadow"] {
        limiter
            .spend(&Transaction::new(limit, "alice"))
            .await
            .unwrap();
    }
    let spammer = Transaction::new("two", "spammer");
    limiter.spend(&spammer).await.unwrap();
    // Checks and refunds emit no events.
    limiter.check(&spammer).await.unwrap();
    limiter
        .refund(&Transaction::new("two", "alice"))
        .await
        .unwrap();

    // A blocked client has no wait.
    let none = Value::Null;
    let expected = [
        json!(["TRACE", "two", "alice", "acquired", 1, none]),
        json!(["TRACE", "two", "alice", "acquired", 0, none]),
        json!(["DEBUG", "two", "alice", "rejected", 0, "1800s"]),
        json!(["TRACE", "shadow", "alice", "acquired", 0, none]),
        json!(["DEBUG", "shadow", "alice", "shadow_rejected", 0, "3600s"]),
        json!(["DEBUG", "two", "spammer", "blocked", 0, none]),
    ];
    let seen = decisions(&log).into_iter().map(|line| {
        let fields = &line["fields"];
        json!([
            line["level"],
            fields["limit"],
            fields["id"],
            fields["result"],
            fields["remaining"],
            fields["retry_after"],
        ])
    });
    assert_eq!(seen.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn denials_name_the_values_of_the_limit_and_whether_they_are_an_override() {
    let (log, _guard) = Log::capture_json();
    let accounts = LimitName::new("accounts", 9, IdFormat::RegId);
    let limits = limits()
        .override_for("two", "vip", Limit::per_hour(1))
        .block(accounts, "pay first");
    let limiter = limiter(&limits, MemoryBackend::new());
    for id in ["alice", "vip", "spammer"] {
        let all = Transaction::new("two", id).cost(2).mode(Mode::Debit);
        limiter.spend(&all).await.unwrap();
        limiter
            .spend(&all.cost(1).mode(Mode::CheckAndSpend))
            .await
            .unwrap();
    }
    let hour = Duration::from_secs(3600);
    limiter.block("accounts", "7", hour).await.unwrap();
    let look = Transaction::new("accounts", "7").cost(0);
    limiter.spend(&look).await.unwrap();
    let mut denials = decisions(&log);
    denials.retain(|line| line["level"] == "DEBUG");
    let seen = denials.iter().map(|line| {
        let fields = &line["fields"];
        json!([fields["id"], fields["values"], fields["overridden"]])
    });
    let mut seen: Vec<_> = seen.collect();
    seen.dedup();
    let expected = [
        json!(["alice", "2 per hour, 2 at once", false]),
        json!(["vip", "1 per hour, 1 at once", true]),
        json!(["spammer", "blocked", true]),
        json!(["7", null, false]),
    ];
    assert_eq!(seen, expected);
}

/// Sends a request of an account in a span that has the fields.
async fn send(layer: &RateLimitLayer, account: &str) -> u16 {
    let request = Request::builder().header("x-account", account);
    let request = request.body(Full::<bytes::Bytes>::default()).unwrap();
    let span = info_span!(
        "request",
        rate_limiting.policy = Empty,
        rate_limiting.result = Empty
    );
    let response = layer.layer(Hello).oneshot(request).instrument(span);
    response.await.unwrap().status().as_u16()
}

#[tokio::test]
async fn span_of_a_request_has_the_decision() {
    let (log, _guard) = Log::capture_json();
    let limiter = limiter(&limits(), MemoryBackend::new());
    let account = || HeaderId::new("x-account");
    let two = RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("two", account()));
    let shadow = RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("shadow", account()));
    let unlimited = RateLimitLayer::with_limiter(limiter);
    for (layer, id, status) in [
        (&two, "alice", 200),
        (&two, "alice", 200),
        (&two, "alice", 429),
        (&two, "spammer", 429),
        (&shadow, "alice", 200),
        (&shadow, "alice", 200),
        (&unlimited, "alice", 200),
    ] {
        assert_eq!(send(layer, id).await, status);
    }
    let mut ended = log.lines();
    ended.retain(|line| line["fields"]["message"] == "close");
    let recorded = ended.iter().map(|line| {
        let span = &line["span"];
        json!([span["rate_limiting.policy"], span["rate_limiting.result"]])
    });
    let expected = [
        json!(["two", "acquired"]),
        json!(["two", "acquired"]),
        json!(["two", "rejected"]),
        json!(["two", "blocked"]),
        json!(["shadow", "acquired"]),
        json!(["shadow", "shadow_rejected"]),
        json!([null, null]),
    ];
    assert_eq!(recorded.collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn breaker_and_local_decisions_are_events() {
    let (log, _guard) = Log::capture_json();
    let store = Store::new(Fate::NoReply);
    let limiter = limiter(&limits(), FailurePolicy::new(store.clone()));
    let alice = Transaction::new("two", "alice");
    for _ in 0..6 {
        limiter.spend(&alice).await.unwrap();
    }
    store.set_fate(Fate::Works);
    tokio::time::advance(Duration::from_secs(1)).await;
    limiter
        .spend(&Transaction::new("two", "bob"))
        .await
        .unwrap();

    let seen = decisions(&log).into_iter().map(|line| {
        let result = &line["fields"]["result"];
        json!([line["level"], result])
    });
    let expected = [
        json!(["DEBUG", "fallback_acquired"]),
        json!(["DEBUG", "fallback_acquired"]),
        json!(["DEBUG", "fallback_rejected"]),
        json!(["DEBUG", "fallback_rejected"]),
        json!(["DEBUG", "fallback_rejected"]),
        json!(["DEBUG", "fallback_rejected"]),
        json!(["TRACE", "acquired"]),
    ];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    // With and without the store.
    assert_eq!(log.count("\"WARN\""), 1, "{log:?}");
    assert_eq!(log.count("\"INFO\""), 1, "{log:?}");
    assert_eq!(log.count("does not answer: deciding without it"), 1);
    assert_eq!(log.count("the rate limit store answers again"), 1);
}
