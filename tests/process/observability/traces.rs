//! Events about decisions and changes, and the fields recorded on a request's span.

use std::time::Duration;

use http::Request;
use http_body_util::Full;
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
use tracing::{Instrument, Level, field::Empty, info_span};

use super::spans::Trace;
use crate::support::{
    Hello,
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

#[tokio::test]
async fn denials_are_logged_at_debug_and_admissions_at_trace() {
    let (trace, _guard) = Trace::capture();
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

    let (debug, trace_level) = (Level::DEBUG, Level::TRACE);
    let expected = [
        (trace_level, "two", "alice", "acquired", "1"),
        (trace_level, "two", "alice", "acquired", "0"),
        (debug, "two", "alice", "rejected", "0"),
        (trace_level, "shadow", "alice", "acquired", "0"),
        (debug, "shadow", "alice", "shadow_rejected", "0"),
        (debug, "two", "spammer", "blocked", "0"),
    ];
    let decisions = trace.decisions();
    let seen = decisions.iter().map(|(level, fields)| {
        let of = |name| fields.of(name).unwrap();
        (*level, of("limit"), of("id"), of("result"), of("remaining"))
    });
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    let waits = decisions.iter().map(|(_, fields)| fields.of("retry_after"));
    let waits: Vec<_> = waits.collect();
    let (half, hour) = (Some("1800s"), Some("3600s"));
    // A blocked client has no wait.
    assert_eq!(waits, [None, None, half, None, hour, None]);
}

#[tokio::test]
async fn denials_name_the_values_of_the_limit_and_whether_they_are_an_override() {
    let (trace, _guard) = Trace::capture();
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
    let mut decisions = trace.decisions();
    decisions.retain(|(level, _)| *level == Level::DEBUG);
    let seen = decisions.iter().map(|(_, fields)| {
        let [values, overridden] = ["values", "overridden"].map(|name| fields.of(name));
        (fields.of("id").unwrap(), values, overridden.unwrap())
    });
    let mut seen: Vec<_> = seen.collect();
    seen.dedup();
    let expected = [
        ("alice", Some("2 per hour, 2 at once"), "false"),
        ("vip", Some("1 per hour, 1 at once"), "true"),
        ("spammer", Some("blocked"), "true"),
        ("7", None, "false"),
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
    let (trace, _guard) = Trace::capture();
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
    let spans = trace.spans();
    let recorded = spans.iter().map(|fields| {
        let of = |name| fields.of(name);
        (of("rate_limiting.policy"), of("rate_limiting.result"))
    });
    let expected = [
        (Some("two"), Some("acquired")),
        (Some("two"), Some("acquired")),
        (Some("two"), Some("rejected")),
        (Some("two"), Some("blocked")),
        (Some("shadow"), Some("acquired")),
        (Some("shadow"), Some("shadow_rejected")),
        (None, None),
    ];
    assert_eq!(recorded.collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn breaker_and_local_decisions_are_events() {
    let (trace, _guard) = Trace::capture();
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

    let said = [
        "the rate limit store does not answer: deciding without it",
        "the rate limit store answers again",
    ];
    assert_eq!(trace.messages(Level::INFO), said);
    let results = trace.decisions().into_iter();
    let results = results.map(|(level, fields)| (level, fields.of("result").unwrap().to_owned()));
    let results: Vec<_> = results.collect();
    let of = |level, result: &str, times| vec![(level, result.to_owned()); times];
    let expected = [
        of(Level::DEBUG, "fallback_acquired", 2),
        of(Level::DEBUG, "fallback_rejected", 4),
        of(Level::TRACE, "acquired", 1),
    ];
    assert_eq!(results, expected.concat());
}
