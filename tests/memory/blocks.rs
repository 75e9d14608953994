//! Clients that are blocked for a time.

use std::time::Duration;

use futures_util::future::try_join_all;
use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, DenyCache},
    clock::ManualClock,
    decision::Source,
    id::IdFormat,
    limit::LimitName,
    limiter::LimiterError,
    transaction::Mode,
};

use crate::support::store::{Fate, Store};

const HOUR: Duration = Duration::from_secs(3600);

fn limiter(clock: &ManualClock, backend: impl Backend) -> Limiter {
    let unpaid = LimitName::new("unpaid", 2, IdFormat::RegId);
    let limits = Limits::builder()
        .limit("requests", Limit::per_hour(2))
        .block(unpaid, "pay first")
        .override_for("unpaid", "1", Limit::UNLIMITED)
        .override_for("unpaid", "666", Limit::BLOCKED);
    Limiter::new(limits.build().unwrap(), backend).with_clock(clock.clone())
}

/// Returns the decision on a request of an account, as a layer asks for it.
async fn ask(limiter: &Limiter, id: &str) -> Decision {
    let look = Transaction::new("unpaid", id).cost(0).mode(Mode::CheckOnly);
    limiter.spend(&look).await.unwrap()
}

#[tokio::test]
async fn client_is_blocked_for_the_time_in_whole_seconds() {
    let clock = ManualClock::default();
    let limiter = limiter(&clock, MemoryBackend::new());
    let us = Duration::from_micros;
    for (time, secs) in [
        (us(0), 1),
        (us(1_000_001), 2),
        (HOUR, 3600),
        (365 * 24 * HOUR, 31_536_000),
    ] {
        limiter.block("unpaid", "7", time).await.unwrap();
        let rounded = Duration::from_secs(secs);
        assert_eq!(ask(&limiter, "7").await.retry_after(), Some(rounded));
        assert!(ask(&limiter, "8").await.allowed());
        clock.advance(rounded - us(1));
        assert!(!ask(&limiter, "7").await.allowed(), "{time:?}");
        clock.advance(us(1));
        assert!(ask(&limiter, "7").await.allowed(), "{time:?}");
    }
    limiter.block("unpaid", "7", Duration::MAX).await.unwrap();
    let left = ask(&limiter, "7").await.retry_after();
    assert!(left > Some(71 * 365 * 24 * HOUR), "{left:?}");
}

#[tokio::test]
async fn another_block_replaces_the_one_before_and_lifting_ends_it() {
    let clock = ManualClock::default();
    let limiter = limiter(&clock, MemoryBackend::new());
    limiter.block("unpaid", "7", HOUR).await.unwrap();
    clock.advance(Duration::from_micros(1_234_567));
    for time in [2 * HOUR, HOUR / 2, 3 * HOUR] {
        limiter.block("unpaid", "7", time).await.unwrap();
        assert_eq!(ask(&limiter, "7").await.retry_after(), Some(time));
    }
    for _ in 0..2 {
        limiter.unblock("unpaid", "7").await.unwrap();
        assert!(ask(&limiter, "7").await.allowed());
    }
}

#[tokio::test(start_paused = true)]
async fn several_blocks_at_once_are_one() {
    let store = Store::new(Fate::Takes(Duration::from_millis(1)));
    let limiter = limiter(&ManualClock::default(), store);
    let minute = Duration::from_secs(60);
    let blocks = [(); 4].map(|()| limiter.block("unpaid", "7", minute));
    try_join_all(blocks).await.unwrap();
    assert_eq!(ask(&limiter, "7").await.retry_after(), Some(minute));
}

#[tokio::test]
async fn looks_keep_no_buckets() {
    let limiter = limiter(&ManualClock::default(), MemoryBackend::new());
    for id in 1000..1100 {
        assert!(ask(&limiter, &id.to_string()).await.allowed());
    }
    assert_eq!(limiter.stats().buckets, Some(0));
}

#[tokio::test]
async fn overrides_protect_from_blocks_or_block_for_good() {
    let limiter = limiter(&ManualClock::default(), MemoryBackend::new());
    limiter.block("unpaid", "1", HOUR).await.unwrap();
    assert!(ask(&limiter, "1").await.allowed());
    limiter.unblock("unpaid", "666").await.unwrap();
    assert!(ask(&limiter, "666").await.blocked());
}

#[tokio::test]
async fn only_lists_of_blocked_clients_can_block() {
    let limiter = limiter(&ManualClock::default(), MemoryBackend::new());
    let error = limiter
        .block("requests", "7", HOUR)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("LimitsBuilder::block"), "{error}");
    let error = limiter
        .unblock("unpayd", "7")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("did you mean `unpaid`?"), "{error}");
    let error = limiter.block("unpaid", "alice", HOUR).await.unwrap_err();
    assert!(matches!(error, LimiterError::InvalidId { .. }), "{error}");
}

#[tokio::test]
async fn cache_remembers_blocks_until_they_are_lifted_through_it() {
    let (clock, store) = (ManualClock::default(), Store::default());
    // A cache only remembers decisions by the store's clock.
    let unpaid = LimitName::new("unpaid", 2, IdFormat::RegId);
    let limits = Limits::builder()
        .block(unpaid, "pay first")
        .build()
        .unwrap();
    let ours = Limiter::new(limits, DenyCache::new(store.clone()));
    let theirs = limiter(&clock, store.clone());
    ours.block("unpaid", "7", HOUR).await.unwrap();
    assert_eq!(ask(&ours, "7").await.source(), Source::Store);
    assert_eq!(ask(&ours, "7").await.source(), Source::Cache);
    // A shorter block holds at once.
    ours.block("unpaid", "7", HOUR / 2).await.unwrap();
    let denied = ask(&ours, "7").await;
    assert_eq!(denied.source(), Source::Store);
    assert!(
        denied.retry_after().is_some_and(|wait| wait <= HOUR / 2),
        "{denied:?}"
    );
    // A remembered denial does not shorten a new block.
    theirs.unblock("unpaid", "7").await.unwrap();
    ours.block("unpaid", "7", 2 * HOUR).await.unwrap();
    let left = ours
        .peek(&Transaction::new("unpaid", "7"))
        .await
        .unwrap()
        .reset_after();
    assert!(left > Some(3 * HOUR / 2), "{left:?}");
    ours.unblock("unpaid", "7").await.unwrap();
    assert!(ask(&ours, "7").await.allowed());
    store.set_fate(Fate::NoReply);
    assert!(ours.block("unpaid", "7", HOUR).await.is_err());
}

#[cfg(feature = "failure-policy")]
#[tokio::test(start_paused = true)]
async fn block_that_does_not_reach_the_store_is_an_error() {
    let (clock, store) = (ManualClock::default(), Store::default());
    let limiter = limiter(&clock, tollgate::backend::FailurePolicy::new(store.clone()));
    limiter.block("unpaid", "7", HOUR).await.unwrap();
    store.set_fate(Fate::NoReply);
    let error = limiter.block("unpaid", "9", HOUR).await.unwrap_err();
    assert!(matches!(error, LimiterError::Backend(_)), "{error}");
    assert!(limiter.unblock("unpaid", "7").await.is_err());
    assert!(ask(&limiter, "7").await.allowed(), "the store knows of it");
    store.set_fate(Fate::Works);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(!ask(&limiter, "7").await.allowed());
    assert!(ask(&limiter, "9").await.allowed());
}
