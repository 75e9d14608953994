//! Clients that are blocked for a time, with a reason for them.

use std::time::Duration;

#[cfg(feature = "failure-policy")]
use tollgate::backend::FailurePolicy;
use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, DenyCache},
    clock::ManualClock,
    decision::Source,
    id::IdFormat,
    limit::{LimitName, LimitsBuilder},
    limiter::LimiterError,
    transaction::Mode,
};

#[cfg(feature = "failure-policy")]
use crate::support::store::Fate;
use crate::support::store::Store;

const HOUR: Duration = Duration::from_secs(3600);

fn limits() -> LimitsBuilder {
    Limits::builder()
        .limit("requests", Limit::per_hour(2))
        .block(LimitName::new("unpaid", 2, IdFormat::RegId), "pay first")
        .override_for("unpaid", "1", Limit::UNLIMITED)
        .override_for("unpaid", "666", Limit::BLOCKED)
}

fn limiter(clock: &ManualClock, backend: impl Backend) -> Limiter {
    Limiter::new(limits().build().unwrap(), backend).with_clock(clock.clone())
}

/// Whether a request of an account passes, as a layer asks.
async fn ask(limiter: &Limiter, id: &str) -> Decision {
    let look = Transaction::new("unpaid", id).cost(0).mode(Mode::CheckOnly);
    limiter.spend(&look).await.unwrap()
}

#[tokio::test]
async fn client_is_blocked_for_exactly_the_time() {
    let clock = ManualClock::default();
    let limiter = limiter(&clock, MemoryBackend::new());
    for time in [1, 2, 59, 3600, 86_400 * 365] {
        let time = Duration::from_secs(time);
        limiter.block("unpaid", "7", time).await.unwrap();
        assert_eq!(ask(&limiter, "7").await.retry_after(), time);
        assert_eq!(
            limiter.blocked_for("unpaid", "7").await.unwrap(),
            Some(time)
        );
        assert!(ask(&limiter, "8").await.allowed());
        clock.advance(time - Duration::from_micros(1));
        assert!(!ask(&limiter, "7").await.allowed(), "{time:?}");
        clock.advance(Duration::from_micros(1));
        assert!(ask(&limiter, "7").await.allowed(), "{time:?}");
        assert_eq!(limiter.blocked_for("unpaid", "7").await.unwrap(), None);
    }
}

#[tokio::test]
async fn time_is_rounded_up_and_bounded() {
    let clock = ManualClock::default();
    let limiter = limiter(&clock, MemoryBackend::new());
    let secs = Duration::from_secs;
    for (time, rounded) in [
        (Duration::ZERO, secs(1)),
        (Duration::from_nanos(1), secs(1)),
        (Duration::from_micros(1_000_001), secs(2)),
    ] {
        limiter.block("unpaid", "7", time).await.unwrap();
        assert_eq!(ask(&limiter, "7").await.retry_after(), rounded);
        limiter.unblock("unpaid", "7").await.unwrap();
    }
    limiter.block("unpaid", "7", Duration::MAX).await.unwrap();
    let left = ask(&limiter, "7").await.retry_after();
    assert!(left > secs(71 * 365 * 86_400), "{left:?}");
    assert_ne!(left, Decision::NEVER);
}

#[tokio::test]
async fn another_block_replaces_the_one_before_and_lifting_ends_it() {
    let clock = ManualClock::default();
    let limiter = limiter(&clock, MemoryBackend::new());
    limiter.block("unpaid", "7", HOUR).await.unwrap();
    clock.advance(Duration::from_micros(1_234_567));
    for time in [2 * HOUR, HOUR / 2, 3 * HOUR] {
        limiter.block("unpaid", "7", time).await.unwrap();
        let left = ask(&limiter, "7").await.retry_after();
        let second = Duration::from_secs(1);
        assert!((time..time + second).contains(&left), "{time:?}: {left:?}");
    }
    limiter.unblock("unpaid", "7").await.unwrap();
    assert!(ask(&limiter, "7").await.allowed());
    limiter.unblock("unpaid", "7").await.unwrap();
}

#[tokio::test]
async fn looks_keep_no_buckets() {
    let limiter = limiter(&ManualClock::default(), MemoryBackend::new());
    for id in 1000..2000 {
        assert!(ask(&limiter, &id.to_string()).await.allowed());
    }
    assert_eq!(limiter.stats().buckets, Some(0));
}

#[tokio::test]
async fn overrides_protect_from_blocks_or_block_for_good() {
    let limiter = limiter(&ManualClock::default(), MemoryBackend::new());
    limiter.block("unpaid", "1", HOUR).await.unwrap();
    assert_eq!(limiter.blocked_for("unpaid", "1").await.unwrap(), None);
    assert!(ask(&limiter, "1").await.allowed());
    limiter.unblock("unpaid", "666").await.unwrap();
    let left = limiter.blocked_for("unpaid", "666").await.unwrap();
    assert_eq!(left, Some(Decision::NEVER));
}

#[tokio::test]
async fn only_lists_of_blocked_clients_can_block() {
    let limiter = limiter(&ManualClock::default(), MemoryBackend::new());
    let error = limiter.block("requests", "7", HOUR).await.unwrap_err();
    assert!(matches!(error, LimiterError::NotABlock { .. }), "{error}");
    assert!(
        error.to_string().contains("LimitsBuilder::block"),
        "{error}"
    );
    let error = limiter.unblock("unpayd", "7").await.unwrap_err();
    assert!(error.to_string().contains("unpaid"), "{error}");
    let error = limiter.block("unpaid", "alice", HOUR).await.unwrap_err();
    assert!(matches!(error, LimiterError::InvalidId { .. }), "{error}");
    // A file cannot give such a list other values, and is never asked to.
    let twice = limits().limit("unpaid", Limit::per_hour(1));
    assert!(twice.build().unwrap_err().to_string().contains("twice"));
    let written = serde_json::to_string(&limits().build().unwrap().as_defaults()).unwrap();
    assert!(
        written.contains("requests") && !written.contains("unpaid"),
        "{written}"
    );
}

#[tokio::test]
async fn cache_remembers_blocks_until_they_are_lifted_through_it() {
    let (clock, store) = (ManualClock::default(), Store::default());
    let ours = limiter(&clock, DenyCache::new(store.clone()));
    let theirs = limiter(&clock, store);
    theirs.block("unpaid", "7", HOUR).await.unwrap();
    assert_eq!(ask(&ours, "7").await.source(), Source::Store);
    let again = ask(&ours, "7").await;
    assert_eq!((again.source(), again.retry_after()), (Source::Cache, HOUR));
    ours.unblock("unpaid", "7").await.unwrap();
    assert!(ask(&ours, "7").await.allowed());
    assert!(ask(&theirs, "7").await.allowed());
    // What it remembers does not shorten a new block.
    theirs.block("unpaid", "7", HOUR).await.unwrap();
    assert!(!ask(&ours, "7").await.allowed());
    theirs.unblock("unpaid", "7").await.unwrap();
    ours.block("unpaid", "7", HOUR).await.unwrap();
    assert_eq!(ask(&theirs, "7").await.retry_after(), HOUR);
}

#[cfg(feature = "failure-policy")]
#[tokio::test]
async fn process_that_has_seen_a_block_keeps_it_while_the_store_is_away() {
    let (clock, store) = (ManualClock::default(), Store::default());
    let limiter = limiter(&clock, FailurePolicy::new(store.clone()));
    for id in ["7", "8"] {
        limiter.block("unpaid", id, HOUR).await.unwrap();
    }
    assert!(!ask(&limiter, "7").await.allowed());
    store.becomes(Fate::Away);
    let local = ask(&limiter, "7").await;
    assert_eq!((local.source(), local.allowed()), (Source::Local, false));
    assert!(ask(&limiter, "9").await.allowed());
    // It cannot be told to the others, so it is an error.
    let error = limiter.block("unpaid", "9", HOUR).await.unwrap_err();
    assert!(matches!(error, LimiterError::Backend(_)), "{error}");
    assert!(limiter.unblock("unpaid", "7").await.is_err());
    assert!(!ask(&limiter, "7").await.allowed());
    assert!(ask(&limiter, "9").await.allowed());
}
