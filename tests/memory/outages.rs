//! When a store counts as failing, and how it is probed again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use tokio::time::{Instant, advance, sleep, timeout};
use tollgate::{
    Decision, Limiter,
    backend::{DenyCache, FailurePolicy},
    decision::Source,
};

use crate::{
    failure_policy::{MS, limiter, one, passed, until_probed},
    refund, spend,
    support::{
        Log,
        store::{Fate, Store},
    },
};

const DEADLINE: Duration = Duration::from_millis(50);

/// The decisions on simultaneous requests.
async fn all(limiter: &Limiter, limit: &'static str, requests: usize) -> Vec<Decision> {
    let transaction = one(limit);
    let decided = join_all((0..requests).map(|_| limiter.spend(&transaction))).await;
    decided.into_iter().map(Result::unwrap).collect()
}

#[tokio::test(start_paused = true)]
async fn deadline_holds_for_a_store_that_hangs() {
    let policy = || FailurePolicy::new(Store::new(Fate::Hangs));
    for (policy, deadline) in [(policy().deadline(7 * MS), 7), (policy(), 50)] {
        let began = Instant::now();
        let decided = limiter(policy).spend(&one("local")).await.unwrap();
        assert_eq!(decided.source(), Source::Local);
        assert_eq!(began.elapsed(), deadline * MS);
    }
}

#[tokio::test(start_paused = true)]
async fn store_with_a_breaker_of_its_own_is_always_asked() {
    let store = Store::with_breaker();
    store.set_fate(Fate::NoReply);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    passed(&limiter, "local", 100).await;
    assert_eq!(store.calls(), 100);
    assert_eq!(
        limiter.stats().is_open,
        Some(true),
        "the process decides without it"
    );
    store.set_fate(Fate::Takes(DEADLINE * 2));
    assert_eq!(spend(&limiter, one("local")).await.source(), Source::Local);
}

#[tokio::test(start_paused = true)]
async fn store_that_answers_at_once_is_replaced_at_once() {
    let store = Store::at_once();
    store.set_fate(Fate::Fails);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    let spend = || limiter.try_spend(&one("local")).unwrap().unwrap();
    let local = spend();
    assert_eq!(
        (local.source(), spend().remaining()),
        (Source::Local, Some(8))
    );
    store.set_fate(Fate::Works);
    assert_eq!(
        (spend().source(), spend().remaining()),
        (Source::Store, Some(8))
    );
    let receipt = local.receipt().unwrap();
    let refunded = refund(&limiter, one("local").of_receipt(&receipt)).await;
    assert_eq!(
        (refunded.source(), refunded.remaining()),
        (Source::Local, Some(9))
    );
}

#[tokio::test(start_paused = true)]
async fn answer_of_a_cache_does_not_count_for_the_breaker() {
    let (log, _guard) = Log::capture();
    let store = Store::default();
    let limiter = limiter(FailurePolicy::new(DenyCache::new(store.clone())));
    assert_eq!(passed(&limiter, "local", 11).await, 10);
    store.set_fate(Fate::Fails);
    passed(&limiter, "silent", 10).await;
    advance(Duration::from_secs(2)).await;
    let cached = spend(&limiter, one("local")).await;
    assert_eq!(cached.source(), Source::Cache);
    assert_eq!(log.count("answers again"), 0, "{log:?}");
    assert_eq!(limiter.stats().is_open, Some(true));
}

#[tokio::test(start_paused = true)]
async fn impatient_callers_do_not_hide_a_store_that_hangs() {
    let store = Store::new(Fate::Hangs);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    for _ in 0..5 {
        sleep(DEADLINE).await;
        assert!(timeout(MS, limiter.spend(&one("local"))).await.is_err());
    }
    assert!(
        limiter.try_spend(&one("local")).is_none(),
        "it may still answer"
    );
    sleep(DEADLINE).await;
    let decided = limiter.try_spend(&one("local")).unwrap().unwrap();
    assert_eq!((decided.source(), store.calls()), (Source::Local, 5));
}

#[tokio::test(start_paused = true)]
async fn callers_that_leave_do_not_count_against_a_store_that_answers() {
    let store = Store::new(Fate::Decides(20 * MS));
    let limiter = limiter(FailurePolicy::new(store.clone()));
    for _ in 0..9 {
        assert!(timeout(MS, limiter.spend(&one("local"))).await.is_err());
    }
    sleep(DEADLINE * 2).await;
    store.set_fate(Fate::Works);
    let peeked = limiter.peek(&one("local")).await.unwrap();
    assert_eq!(
        (peeked.source(), peeked.remaining()),
        (Source::Store, Some(1)),
        "they were made"
    );
}

#[tokio::test(start_paused = true)]
async fn at_most_4096_decisions_ask_the_store_at_once() {
    let store = Store::with_breaker();
    store.set_fate(Fate::Hangs);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    let decided = all(&limiter, "allow", 5000).await;
    assert!(!decided.iter().any(Decision::limited));
    assert_eq!(store.calls(), 4096);
}

#[tokio::test(start_paused = true)]
async fn decisions_wait_for_a_place_within_their_deadline() {
    let store = Store::with_breaker();
    store.set_fate(Fate::Takes(20 * MS));
    let limiter = limiter(FailurePolicy::new(store.clone()));
    let decided = all(&limiter, "allow", 10_000).await;
    let by_store = decided.iter().filter(|decision| decision.limited());
    assert_eq!((by_store.count(), store.calls()), (8192, 10_000));
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_before_a_decision_is_awaited() {
    let store = Store::default();
    let limiter = limiter(FailurePolicy::new(store.clone()));
    for _ in 0..9 {
        assert!(limiter.try_spend(&one("local")).is_none());
    }
    store.set_fate(Fate::NoReply);
    passed(&limiter, "allow", 5).await;
    advance(100 * MS).await;
    store.calls();
    for _ in 0..9 {
        assert!(limiter.try_spend(&one("local")).is_none(), "a probe is due");
    }
    store.set_fate(Fate::Works);
    assert_eq!(spend(&limiter, one("local")).await.remaining(), Some(9));
    assert_eq!(store.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn first_poll_reaches_the_store() {
    for store in [Store::default(), Store::with_breaker()] {
        store.set_fate(Fate::Hangs);
        let limiter = limiter(FailurePolicy::new(store.clone()));
        let transaction = one("local");
        let mut spend = Box::pin(limiter.spend(&transaction));
        assert!((&mut spend).now_or_never().is_none());
        assert_eq!(store.calls(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn outage_is_logged_with_its_reason_and_shown() {
    let (log, _guard) = Log::capture();
    let store = Store::default();
    let limiter = limiter(FailurePolicy::new(store.clone()));
    passed(&limiter, "local", 3).await;
    assert_eq!(limiter.stats().is_open, Some(false));
    store.set_fate(Fate::Hangs);
    passed(&limiter, "local", 50).await;
    assert_eq!(
        log.count("does not answer: deciding without it error=it has not answered within"),
        1,
        "{log:?}"
    );
    assert_eq!(limiter.stats().is_open, Some(true));
    store.set_fate(Fate::Works);
    until_probed().await;
    passed(&limiter, "local", 3).await;
    assert_eq!(limiter.stats().is_open, Some(false));
    assert_eq!(
        (log.count("does not answer"), log.count("answers again")),
        (1, 1),
        "{log:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn refund_does_not_end_an_outage_in_the_log() {
    let (log, _guard) = Log::capture();
    let limiter = limiter(FailurePolicy::new(Store::new(Fate::Fails)));
    let local = spend(&limiter, one("local")).await.receipt().unwrap();
    advance(Duration::from_secs(5)).await;
    refund(&limiter, one("local").of_receipt(&local)).await;
    assert_eq!(
        (log.count("answers again"), limiter.stats().is_open),
        (0, Some(true))
    );
}

#[tokio::test(start_paused = true)]
async fn broken_bucket_is_decided_locally_and_counts_as_an_answer() {
    let (log, _guard) = Log::capture();
    let store = Store::new(Fate::CorruptBucket);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    assert_eq!(passed(&limiter, "local", 100).await, 10);
    assert_eq!((store.calls(), limiter.stats().is_open), (100, Some(false)));
    assert_eq!(
        log.count("cannot decide a bucket: deciding without it error=WRONGTYPE of 7"),
        1,
        "{log:?}"
    );
    assert!(limiter.spend(&one("refuse")).await.is_err());
    assert!(limiter.refund(&one("local")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn subscriber_may_call_the_limiter_whenever_something_is_logged() {
    let store = Store::default();
    let limiter = limiter(FailurePolicy::new(store.clone()));
    let (calls, inner) = (Arc::new(AtomicUsize::new(0)), limiter.clone());
    let counted = Arc::clone(&calls);
    let subscriber = tracing_subscriber::fmt().with_writer(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        let _ = inner.spend(&one("allow")).now_or_never();
        let _ = inner.stats();
        std::io::sink()
    });
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    store.set_fate(Fate::NoReply);
    passed(&limiter, "local", 9).await;
    store.set_fate(Fate::Works);
    until_probed().await;
    passed(&limiter, "local", 9).await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}
