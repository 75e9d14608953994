//! What is decided while a store does not answer: the conformance suite through the policy, and a store
//! that fails on order.

#![cfg(feature = "failure-policy")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, BackendError, DenyCache, FailurePolicy, async_trait},
    clock::ManualClock,
    decision::Outcome,
    limit::LimitName,
    limiter::LimiterError,
    tiers::Tier,
    transaction::{Batch, Mode, OnFailure},
};

use crate::{
    conformance::{conformance, figures, map_backend::MapBackend},
    support::Log,
};

conformance!(working, FailurePolicy::new(MapBackend::default()));
figures!(working_figures, FailurePolicy::new(MapBackend::default()));
conformance!(
    around_a_deny_cache,
    FailurePolicy::new(DenyCache::new(MapBackend::default()))
);
conformance!(lost, FailurePolicy::new(Store::lost()));
figures!(lost_figures, FailurePolicy::new(Store::lost()));

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Works,
    Fails,
    /// It never answers.
    Hangs,
    Moves,
    /// It decides, and then fails to say so.
    Forgets,
}

/// A store that fails on order.
#[derive(Clone, Debug)]
struct Store(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    memory: MemoryBackend,
    fate: Mutex<Fate>,
    calls: Mutex<usize>,
}

impl Store {
    fn new(fate: Fate) -> Self {
        Self(Arc::new(Shared {
            memory: MemoryBackend::new(),
            fate: Mutex::new(fate),
            calls: Mutex::default(),
        }))
    }

    fn lost() -> Self {
        Self::new(Fate::Fails)
    }

    fn becomes(&self, fate: Fate) {
        *self.0.fate.lock().unwrap() = fate;
    }

    /// How often it was asked since this was last asked.
    fn calls(&self) -> usize {
        std::mem::take(&mut self.0.calls.lock().unwrap())
    }
}

#[async_trait]
impl Backend for Store {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        *self.0.calls.lock().unwrap() += 1;
        let fate = *self.0.fate.lock().unwrap();
        match fate {
            Fate::Works => self.0.memory.apply(batch).await,
            Fate::Fails => Err(BackendError::unavailable("lost")),
            Fate::Hangs => std::future::pending().await,
            Fate::Moves => Err(BackendError::Moving("READONLY".into())),
            Fate::Forgets => {
                self.0.memory.apply(batch).await?;
                Err(BackendError::unavailable("forgotten"))
            }
        }
    }
}

const BURST: u32 = 10;

/// Limits `local`, `allow` and `refuse`, each with a burst of 10 that hardly comes back.
fn limits() -> Limits {
    let policies = [
        ("local", OnFailure::Local),
        ("allow", OnFailure::Allow),
        ("refuse", OnFailure::Refuse),
    ];
    let builder = policies
        .iter()
        .fold(Limits::builder(), |limits, (name, policy)| {
            let name = LimitName::from(*name).on_failure(*policy);
            limits.limit(name, Limit::per_hour(BURST).burst(BURST))
        });
    builder.build().unwrap()
}

fn limiter(policy: FailurePolicy<Store>) -> Limiter {
    Limiter::new(limits(), policy).with_clock(ManualClock::default())
}

fn one(limit: &'static str) -> Transaction<'static> {
    Transaction::new(limit, "client")
}

/// How many of so many requests pass.
async fn passed(limiter: &Limiter, requests: u32) -> u32 {
    let mut passed = 0;
    for _ in 0..requests {
        passed += u32::from(limiter.spend(&one("local")).await.unwrap().allowed());
    }
    passed
}

#[tokio::test(start_paused = true)]
async fn each_limit_says_what_is_decided_meanwhile() {
    let limiter = limiter(FailurePolicy::new(Store::lost()));
    assert_eq!(passed(&limiter, 30).await, BURST);
    let allowed = limiter.spend(&one("allow")).await.unwrap();
    assert!(allowed.allowed() && !allowed.limited());
    let refused = limiter.spend(&one("refuse")).await;
    assert!(
        matches!(refused, Err(LimiterError::Backend(_))),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn limits_that_say_nothing_do_as_the_policy_does() {
    let limits = Limits::builder()
        .limit("plain", Limit::per_hour(1))
        .build()
        .unwrap();
    let policy = FailurePolicy::new(Store::lost()).on_failure(OnFailure::Allow);
    let plain = Limiter::new(limits, policy);
    for _ in 0..3 {
        assert!(!plain.spend(&one("plain")).await.unwrap().limited());
    }
}

#[tokio::test(start_paused = true)]
async fn batch_is_refused_by_one_and_decided_by_those_that_can() {
    let limiter = limiter(FailurePolicy::new(Store::lost()));
    let refused = limiter.spend_batch(&[one("local"), one("refuse")]).await;
    assert!(matches!(refused, Err(LimiterError::Backend(_))));
    let batch = [one("allow"), one("local").cost(4)];
    for allowed in [true, true, false] {
        let decided = limiter.spend_batch(&batch).await.unwrap();
        assert_eq!(decided.allowed(), allowed);
        assert_eq!(decided.strictest(), Some(1));
        assert!(!decided.members()[0].limited() && decided.members()[1].limited());
    }
    let debit = [one("allow"), one("local").mode(Mode::Debit)];
    assert!(limiter.spend_batch(&debit).await.unwrap().allowed());
    let checked = limiter.check(&one("local").cost(2)).await.unwrap();
    assert!(!checked.allowed());
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_a_new_burst_because_the_store_has_failed() {
    let store = Store::new(Fate::Works);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    assert_eq!(passed(&limiter, 7).await, 7);
    store.becomes(Fate::Fails);
    assert_eq!(passed(&limiter, 10).await, 3);
    store.becomes(Fate::Works);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(
        passed(&limiter, 10).await,
        3,
        "the store has not heard of them"
    );
    limiter.reset(&[one("local")]).await.unwrap();
    store.becomes(Fate::Fails);
    assert_eq!(passed(&limiter, 20).await, BURST, "a reset is seen too");
}

#[tokio::test(start_paused = true)]
async fn share_is_what_one_process_may_use_up() {
    let limiter = limiter(FailurePolicy::new(Store::lost()).share(1, 4));
    assert_eq!(
        passed(&limiter, 10).await,
        3,
        "a quarter of ten, rounded up"
    );
    let denied = limiter.spend(&one("local")).await.unwrap();
    assert_eq!(denied.remaining(), Some(0));
    assert_eq!(
        denied.retry_after(),
        Duration::from_secs(4 * 360),
        "at a quarter of the rate"
    );
    let above = Transaction::new("local", "other").cost(4);
    assert!(
        !limiter.spend(&above).await.unwrap().allowed(),
        "a cost above the share"
    );
}

#[tokio::test(start_paused = true)]
async fn deadline_holds_for_a_store_that_hangs() {
    let limiter = limiter(FailurePolicy::new(Store::new(Fate::Hangs)));
    let begun = tokio::time::Instant::now();
    assert!(limiter.spend(&one("local")).await.unwrap().allowed());
    assert_eq!(begun.elapsed(), FailurePolicy::<Store>::DEFAULT_DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn store_that_does_not_answer_is_asked_now_and_then() {
    let (log, _guard) = Log::capture();
    let store = Store::lost();
    let limiter = limiter(FailurePolicy::new(store.clone()));
    passed(&limiter, 1000).await;
    assert_eq!(store.calls(), 5, "as many failures in a row");
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(1)).await;
        passed(&limiter, 100).await;
        assert_eq!(store.calls(), 1);
    }
    store.becomes(Fate::Works);
    tokio::time::advance(Duration::from_secs(1)).await;
    passed(&limiter, 100).await;
    assert_eq!(store.calls(), 100);
    assert_eq!(log.count("does not answer: deciding without it"), 1);
    assert_eq!(log.count("answers again"), 1);
}

#[tokio::test(start_paused = true)]
async fn store_that_has_moved_is_asked_again() {
    let store = Store::new(Fate::Moves);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    assert_eq!(passed(&limiter, 30).await, BURST);
    assert_eq!(store.calls(), 30);
}

#[tokio::test(start_paused = true)]
async fn answer_that_is_lost_counts_here_too() {
    let store = Store::new(Fate::Forgets);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    assert_eq!(passed(&limiter, 4).await, 4);
    store.becomes(Fate::Works);
    assert_eq!(passed(&limiter, 20).await, BURST - 4);
}

#[tokio::test(start_paused = true)]
async fn no_more_wait_than_may() {
    let store = Store::new(Fate::Hangs);
    let limiter = limiter(FailurePolicy::new(store.clone()).max_in_flight(3));
    let spends = (0..20).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.spend(&one("local")).await.unwrap().allowed() })
    });
    let mut passed = 0;
    for spend in spends.collect::<Vec<_>>() {
        passed += u32::from(spend.await.unwrap());
    }
    assert_eq!((passed, store.calls()), (BURST, 3));
}

#[tokio::test(start_paused = true)]
async fn request_that_is_dropped_leaves_nothing_behind() {
    let store = Store::new(Fate::Hangs);
    let limiter = limiter(FailurePolicy::new(store.clone()).max_in_flight(2));
    for _ in 0..100 {
        let spend = one("local");
        let spend = limiter.spend(&spend);
        let dropped = tokio::time::timeout(Duration::from_millis(10), spend).await;
        assert!(dropped.is_err());
    }
    assert_eq!(
        store.calls(),
        100,
        "each found a place, and none was a failure"
    );
    store.becomes(Fate::Works);
    assert_eq!(passed(&limiter, 20).await, BURST);
}

/// Five a minute, then `burst` more, and then nothing for an hour.
fn tiers(policy: FailurePolicy<Store>, burst: u32) -> (Limiter, ManualClock) {
    let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
    let lowest = Tier::new(5, minute).active(minute);
    let burst = Tier::new(burst, hour).active(hour).cooldown(minute);
    let limit = Limit::tiers([lowest, burst]).unwrap();
    let limits = Limits::builder().limit("local", limit).build().unwrap();
    let clock = ManualClock::default();
    (
        Limiter::new(limits, policy).with_clock(clock.clone()),
        clock,
    )
}

#[tokio::test(start_paused = true)]
async fn prisoner_stays_one_while_the_store_is_lost() {
    let store = Store::new(Fate::Works);
    let (limiter, clock) = tiers(FailurePolicy::new(store.clone()), 1);
    assert_eq!(passed(&limiter, 4).await, 4);
    store.becomes(Fate::Fails);
    assert_eq!(
        passed(&limiter, 9).await,
        2,
        "one more, and that which enters"
    );
    clock.advance(Duration::from_secs(3600));
    let denied = limiter.spend(&one("local")).await.unwrap();
    assert_eq!(denied.retry_after(), Duration::from_micros(1));
    clock.advance(Duration::from_micros(1));
    assert_eq!(passed(&limiter, 9).await, 5);
}

#[tokio::test(start_paused = true)]
async fn what_the_store_has_denied_or_shown_is_not_counted() {
    let store = Store::new(Fate::Works);
    let (limiter, _) = tiers(FailurePolicy::new(store.clone()), 10);
    assert!(
        !limiter
            .spend(&one("local").cost(16))
            .await
            .unwrap()
            .allowed()
    );
    assert_eq!(
        limiter
            .check(&one("local").cost(7))
            .await
            .unwrap()
            .granted(),
        7
    );
    let group = one("local").cost(7).min_cost(6);
    assert_eq!(limiter.spend(&group).await.unwrap().granted(), 7);
    store.becomes(Fate::Fails);
    let rest = limiter
        .spend(&one("local").cost(20).min_cost(1))
        .await
        .unwrap();
    assert_eq!(rest.split().collect::<Vec<_>>(), [(1, 8)]);
}

#[tokio::test(start_paused = true)]
async fn share_of_tiers_is_a_part_of_each_limit() {
    let store = Store::new(Fate::Works);
    let (limiter, clock) = tiers(FailurePolicy::new(store.clone()).share(1, 4), 10);
    assert_eq!(passed(&limiter, 1).await, 1);
    store.becomes(Fate::Fails);
    // A quarter of five is two, of which one is taken; and of ten, three.
    assert_eq!(passed(&limiter, 9).await, 4);
    let denied = limiter.spend(&one("local")).await.unwrap();
    assert_eq!(denied.remaining(), Some(0));
    assert_eq!(denied.retry_after(), Duration::from_micros(3_600_000_001));
    store.becomes(Fate::Works);
    tokio::time::advance(Duration::from_secs(1)).await;
    clock.advance(Duration::from_secs(1));
    assert_eq!(
        passed(&limiter, 20).await,
        14,
        "the store has not heard of them"
    );
    store.becomes(Fate::Fails);
    assert_eq!(
        passed(&limiter, 20).await,
        0,
        "more is taken than the share"
    );
}
