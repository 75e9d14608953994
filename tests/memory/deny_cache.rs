//! Who is denied without asking: a store that counts, behind a cache.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, BackendError, DenyCache, async_trait},
    clock::{Clock, ManualClock, Timestamp},
    decision::Outcome,
    quota::Per,
    tiers::Tier,
    transaction::{Batch, Mode},
};

/// A store that has to be waited for, and whose clock is its own.
#[derive(Clone, Debug)]
struct Store(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    memory: MemoryBackend,
    clock: ManualClock,
    calls: AtomicUsize,
    /// Without a permit, an answer stays away.
    answers: Semaphore,
}

impl Store {
    fn new() -> Self {
        Self(Arc::new(Shared {
            memory: MemoryBackend::new(),
            clock: ManualClock::new(Timestamp::from_micros(5_000_000)),
            calls: AtomicUsize::new(0),
            answers: Semaphore::new(1000),
        }))
    }

    /// How often it was asked since this was last asked.
    fn calls(&self) -> usize {
        self.0.calls.swap(0, Ordering::SeqCst)
    }
}

#[async_trait]
impl Backend for Store {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        let now = batch.now.unwrap_or_else(|| self.0.clock.now());
        let outcome = self.0.memory.apply(&batch.at(Some(now))).await;
        let _answer = self.0.answers.acquire().await.unwrap();
        outcome
    }
}

fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder()
        .limit("requests", Limit::per_minute(60).burst(10))
        .limit("other", Limit::per_minute(60).burst(10));
    Limiter::new(limits.build().unwrap(), backend)
}

fn one() -> Transaction<'static> {
    Transaction::new("requests", "client")
}

async fn spend(limiter: &Limiter, transaction: Transaction<'_>) -> bool {
    limiter.spend(&transaction).await.unwrap().allowed()
}

#[tokio::test]
async fn denied_client_costs_the_store_one_call() {
    let store = Store::new();
    let limiter = limiter(DenyCache::new(store.clone()));
    assert!(spend(&limiter, one().cost(10)).await);
    assert!(!spend(&limiter, one()).await);
    assert_eq!(store.calls(), 2);
    for _ in 0..1000 {
        let denied = limiter
            .try_spend(&one())
            .expect("it does not wait")
            .unwrap();
        assert!(!denied.allowed() && denied.remaining() == Some(0));
        assert!(denied.retry_after() <= Duration::from_secs(1));
    }
    assert_eq!(store.calls(), 0);
    assert!(spend(&limiter, Transaction::new("requests", "other")).await);
    assert!(spend(&limiter, Transaction::new("other", "client")).await);
    assert!(!limiter.check(&one()).await.unwrap().allowed());
    assert_eq!(store.calls(), 2);
}

#[tokio::test]
async fn any_cost_is_judged_under_the_limit_in_force() {
    let store = Store::new();
    let limiter = limiter(DenyCache::new(store.clone()));
    assert!(spend(&limiter, one().cost(7)).await);
    assert!(!spend(&limiter, one().cost(5)).await);
    store.calls();
    assert!(
        !spend(&limiter, one().cost(4)).await,
        "it is known that 3 are left"
    );
    assert_eq!(store.calls(), 0);
    assert!(
        spend(&limiter, one().cost(3)).await,
        "what fits is asked for"
    );
    let raised = Limits::builder()
        .limit("requests", Limit::per_minute(60).burst(30))
        .limit("other", Limit::per_minute(60));
    limiter.reload(raised.build().unwrap()).unwrap();
    assert!(spend(&limiter, one().cost(20)).await, "so is what fits now");
}

#[tokio::test]
async fn nobody_is_denied_for_longer_than_by_the_store() {
    let (store, clock) = (Store::new(), ManualClock::default());
    let limiter = limiter(DenyCache::new(store.clone())).with_clock(clock.clone());
    assert!(spend(&limiter, one().cost(10)).await);
    for _ in 0..100 {
        assert!(!spend(&limiter, one()).await);
        clock.advance(Duration::from_micros(999_999));
        assert!(!spend(&limiter, one()).await);
        clock.advance(Duration::from_micros(1));
        assert!(spend(&limiter, one()).await);
    }
    assert!(store.calls() <= 201);
}

#[tokio::test]
async fn what_others_give_back_is_seen_after_the_lifetime() {
    let store = Store::new();
    let cached = |lifetime| limiter(DenyCache::new(store.clone()).lifetime(lifetime));
    let [forgetful, patient] = [Duration::ZERO, Duration::from_secs(3600)].map(cached);
    assert!(spend(&forgetful, one().cost(10)).await);
    assert!(!spend(&forgetful, one()).await && !spend(&patient, one()).await);
    limiter(store.clone()).reset(&[one()]).await.unwrap();
    assert!(spend(&forgetful, one()).await);
    assert!(!spend(&patient, one()).await, "as documented");
}

#[tokio::test]
async fn batch_is_denied_if_a_vote_is_known_to_be() {
    let store = Store::new();
    let limiter = limiter(DenyCache::new(store.clone()));
    let other = Transaction::new("other", "client");
    assert!(spend(&limiter, one().cost(10)).await);
    assert!(!spend(&limiter, one()).await);
    store.calls();
    let denied = limiter.spend_batch(&[other, one()]).await.unwrap();
    assert!(!denied.allowed() && denied.strictest() == Some(1));
    assert!(!denied.members()[0].limited(), "it was not looked at");
    assert_eq!(store.calls(), 0);
    for mode in [Mode::SpendOnly, Mode::Debit] {
        let batch = [other, one().mode(mode)];
        assert!(
            limiter.spend_batch(&batch).await.unwrap().allowed(),
            "{mode:?} has no vote"
        );
    }
}

#[tokio::test]
async fn what_is_remembered_is_bounded() {
    let store = Store::new();
    let limiter = limiter(DenyCache::with_capacity(store.clone(), 64));
    let ids: Vec<_> = (0..1000).map(|id| id.to_string()).collect();
    let deny = async |id: &String| {
        let one = Transaction::new("requests", id);
        limiter.spend(&one.cost(10)).await.unwrap();
        assert!(!spend(&limiter, one).await);
    };
    for id in &ids {
        deny(id).await;
    }
    store.calls();
    let known = ids.iter().filter(|id| {
        limiter
            .try_spend(&Transaction::new("requests", id))
            .is_some()
    });
    assert_eq!(known.count(), 64);
}

/// Five a second; a burst as large as that follows, and then fifteen seconds without another.
fn tiers(store: &Store, burst: u32) -> (Limiter, ManualClock) {
    let secs = Duration::from_secs;
    let lowest = Tier::new(5, secs(1)).active(secs(1));
    let burst = Tier::new(burst, secs(15))
        .active(secs(15))
        .cooldown(secs(15));
    let limit = Limit::tiers([lowest, burst]).unwrap();
    let limits = Limits::builder().limit("requests", limit).build().unwrap();
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits, DenyCache::new(store.clone()));
    (limiter.with_clock(clock.clone()), clock)
}

#[tokio::test]
async fn prisoner_costs_the_store_nothing_until_it_is_free() {
    let store = Store::new();
    let (limiter, clock) = tiers(&store, 1);
    assert!(spend(&limiter, one().cost(6)).await);
    assert!(!spend(&limiter, one()).await);
    assert_eq!(store.calls(), 2);
    for second in 0..=15 {
        let denied = limiter
            .try_spend(&one())
            .expect("it does not wait")
            .unwrap();
        let passed = second * 1_000_000;
        let [retry, reset] = [15_000_001, 30_000_001].map(|us| us - passed);
        assert_eq!(denied.retry_after(), Duration::from_micros(retry));
        assert_eq!(denied.reset_after(), Duration::from_micros(reset));
        assert_eq!((denied.granted(), denied.tier()), (0, None));
        if second < 15 {
            clock.advance(Duration::from_secs(1));
        }
    }
    assert_eq!(store.calls(), 0);
    for calls in [1, 0] {
        // A higher cost may have to wait longer, so the store is asked once.
        assert!(!limiter.check(&one().cost(3)).await.unwrap().allowed());
        assert_eq!(store.calls(), calls);
    }
    clock.advance(Duration::from_micros(1));
    assert!(
        spend(&limiter, one()).await,
        "at the first instant possible"
    );
    assert_eq!(store.calls(), 1);
}

#[tokio::test]
async fn less_than_what_was_denied_is_asked_for() {
    let store = Store::new();
    let (limiter, _) = tiers(&store, 50);
    assert!(spend(&limiter, one().cost(53)).await);
    assert!(!spend(&limiter, one().cost(5)).await);
    store.calls();
    for denied in [one().cost(5), one().cost(9).min_cost(5)] {
        assert!(!spend(&limiter, denied).await);
    }
    assert_eq!(store.calls(), 0);
    // A higher minimum is denied as well, but has to wait longer, and only the store knows how long.
    for least in [6, 4] {
        assert!(!spend(&limiter, one().cost(least)).await);
        assert_eq!(store.calls(), 1);
        assert!(!spend(&limiter, one().cost(7).min_cost(least)).await);
        assert!(!spend(&limiter, one().cost(5)).await);
        assert_eq!(store.calls(), 0, "each one is remembered");
    }
    let group = limiter.spend(&one().cost(9).min_cost(1)).await.unwrap();
    assert_eq!((group.granted(), store.calls()), (2, 1));
}

#[tokio::test]
async fn grants_and_resets_of_tiers_are_seen_at_once() {
    let store = Store::new();
    let (limiter, _) = tiers(&store, 50);
    assert!(spend(&limiter, one().cost(53)).await);
    assert!(!spend(&limiter, one().cost(5)).await);
    assert!(limiter.try_spend(&one().cost(5)).is_some());
    assert!(spend(&limiter, one()).await);
    assert!(
        limiter.try_spend(&one().cost(5)).is_none(),
        "it may differ now"
    );
    assert!(!spend(&limiter, one().cost(5)).await);
    let voteless = one().cost(5).mode(Mode::SpendOnly);
    assert!(limiter.try_spend(&voteless).is_none());
    limiter.reset(&[one()]).await.unwrap();
    assert!(spend(&limiter, one().cost(5)).await);
}

#[tokio::test]
async fn what_never_passes_is_asked_for_once() {
    let store = Store::new();
    let (limiter, clock) = tiers(&store, 50);
    assert!(!spend(&limiter, one().cost(56)).await);
    clock.advance(Duration::from_secs(1_000_000));
    assert!(!spend(&limiter, one().cost(60)).await);
    assert_eq!(store.calls(), 1);
    assert!(spend(&limiter, one().cost(55)).await);
}

#[tokio::test]
async fn denied_windows_and_quotas_cost_the_store_one_call_until_they_have_room() {
    let secs = Duration::from_secs;
    for limit in [
        Limit::window(5, secs(60)),
        Limit::quota(5, Per::first_use(secs(60))),
    ] {
        let (store, clock) = (Store::new(), ManualClock::default());
        let limits = Limits::builder().limit("requests", limit).build().unwrap();
        let cache = DenyCache::new(store.clone()).lifetime(secs(100_000));
        let limiter = Limiter::new(limits, cache).with_clock(clock.clone());
        assert!(spend(&limiter, one().cost(3)).await);
        assert!(!spend(&limiter, one().cost(3)).await);
        assert_eq!(store.calls(), 2);
        for _ in 0..100 {
            let denied = limiter.try_spend(&one().cost(4));
            assert!(!denied.expect("it does not wait").unwrap().allowed());
        }
        assert_eq!(store.calls(), 0);
        assert!(spend(&limiter, one().cost(2)).await, "what is less may fit");
        assert!(!spend(&limiter, one()).await);
        store.calls();
        clock.advance(Duration::from_micros(60_000_000 - 1));
        let denied = limiter
            .try_spend(&one())
            .expect("it does not wait")
            .unwrap();
        assert_eq!(denied.retry_after(), Duration::from_micros(1));
        assert_eq!(store.calls(), 0);
        clock.advance(Duration::from_micros(1));
        assert!(spend(&limiter, one().cost(5)).await);
        assert!(!spend(&limiter, one()).await);
        assert!(limiter.refund(&one()).await.unwrap().refunded());
        assert!(spend(&limiter, one()).await, "a refund makes it ask again");
    }
}

#[tokio::test]
async fn each_cost_waits_as_long_as_the_store_says() {
    let secs = Duration::from_secs;
    let tiers = [
        Tier::new(3, secs(2)).active(secs(5)).cooldown(secs(7)),
        Tier::new(6, secs(20)).active(secs(11)).cooldown(secs(13)),
    ];
    for limit in [
        Limit::window(5, secs(60)),
        Limit::quota(5, Per::first_use(secs(60))),
        Limit::per_minute(5),
        Limit::per_minute(5).max_wait(secs(20)),
        Limit::tiers(tiers).unwrap(),
    ] {
        for first in 1..=5 {
            compare_waits(&limit, first).await;
        }
    }
}

/// Compares what the cache and its store say about each cost, once `first` was denied.
async fn compare_waits(limit: &Limit, first: u32) {
    let (store, clock) = (Store::new(), ManualClock::default());
    let limits = Limits::builder().limit("requests", limit.clone());
    let limits = limits.build().unwrap();
    let direct = Limiter::new(limits.clone(), store.clone()).with_clock(clock.clone());
    let cache = DenyCache::new(store.clone()).lifetime(Duration::from_secs(100_000));
    let cached = Limiter::new(limits, cache).with_clock(clock.clone());
    while spend(&direct, one()).await {
        clock.advance(Duration::from_secs(1));
    }
    cached.spend(&one().cost(first)).await.unwrap();
    let mut known = 0;
    for _ in 0..40 {
        for cost in [first, 1, 2, 3, 4, 5, 2] {
            store.calls();
            let figures = async |limiter: &Limiter| {
                let checked = limiter.check(&one().cost(cost)).await.unwrap();
                (
                    checked.allowed(),
                    checked.retry_after(),
                    checked.next_after(),
                )
            };
            let ours = figures(&cached).await;
            known += usize::from(store.calls() == 0);
            let theirs = figures(&direct).await;
            assert_eq!(ours, theirs, "{cost} after {first}: {limit:?}");
        }
        clock.advance(Duration::from_millis(700));
    }
    assert!(known > 30, "{known} are remembered of {limit:?}");
}

#[tokio::test]
async fn higher_cost_is_denied_from_memory_if_all_units_leave_at_once() {
    let (store, clock) = (Store::new(), ManualClock::default());
    let window = Limit::window(5, Duration::from_secs(60));
    let limits = Limits::builder().limit("requests", window).build().unwrap();
    let limiter = Limiter::new(limits, DenyCache::new(store.clone())).with_clock(clock.clone());
    assert!(spend(&limiter, one().cost(5)).await && !spend(&limiter, one()).await);
    store.calls();
    clock.advance(Duration::from_secs(20));
    let denied = limiter.spend(&one().cost(3)).await.unwrap();
    assert_eq!(denied.retry_after(), Duration::from_secs(40));
    assert_eq!(store.calls(), 0);
}

#[tokio::test]
async fn denial_of_a_window_is_not_one_of_another_window() {
    let store = Store::new();
    let window = |limit| {
        let limit = Limit::window(limit, Duration::from_secs(60));
        Limits::builder().limit("requests", limit).build().unwrap()
    };
    let limiter = Limiter::new(window(1), DenyCache::new(store.clone()));
    assert!(spend(&limiter, one()).await && !spend(&limiter, one()).await);
    store.calls();
    limiter.reload(window(2)).unwrap();
    assert!(spend(&limiter, one()).await);
    assert_eq!(store.calls(), 1);
}

/// A store whose calls are decided and answered one step at a time, by their order of arrival.
#[derive(Clone, Debug)]
struct Stepwise(Arc<Steps>);

#[derive(Debug)]
struct Steps {
    store: Store,
    arrived: AtomicUsize,
    /// What each call waits for before it is decided, and before it is answered.
    calls: [[Semaphore; 2]; 3],
}

#[async_trait]
impl Backend for Stepwise {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let steps = &self.0;
        let nth = steps.arrived.fetch_add(1, Ordering::SeqCst);
        let Some([decision, answer]) = steps.calls.get(nth) else {
            return steps.store.apply(batch).await;
        };
        decision.acquire().await.unwrap().forget();
        let outcome = steps.store.apply(batch).await;
        answer.acquire().await.unwrap().forget();
        outcome
    }
}

#[tokio::test]
async fn pass_shows_a_refund_that_is_not_answered_yet() {
    for limit in [Limit::per_hour(4), Limit::quota(4, Per::Month)] {
        let steps = Stepwise(Arc::new(Steps {
            store: Store::new(),
            arrived: AtomicUsize::new(0),
            calls: [(); 3].map(|()| [0, 0].map(Semaphore::new)),
        }));
        let limits = Limits::builder().limit("requests", limit);
        let limits = limits.build().unwrap();
        let direct = Limiter::new(limits.clone(), steps.0.store.clone());
        assert!(spend(&direct, one().cost(4)).await);
        let limiter = Limiter::new(limits, DenyCache::new(steps.clone()));
        let (one, two, three) = (one(), one().cost(2), one().cost(3));
        let mut calls = [
            limiter.refund(&three).boxed(),
            limiter.spend(&two).boxed(),
            limiter.spend(&one).boxed(),
        ];
        for call in &mut calls {
            assert!(call.as_mut().now_or_never().is_none());
        }
        let [refund, denied, passed] = &mut calls;
        let step = |call: usize, step: usize| steps.0.calls[call][step].add_permits(1);
        step(1, 0);
        step(1, 1);
        assert!(!denied.as_mut().now_or_never().unwrap().unwrap().allowed());
        step(0, 0);
        assert!(refund.as_mut().now_or_never().is_none());
        step(2, 0);
        step(2, 1);
        let passed = passed.as_mut().now_or_never().unwrap().unwrap();
        assert_eq!((passed.allowed(), passed.remaining()), (true, Some(2)));
        assert!(limiter.spend(&two).await.unwrap().allowed());
    }
}
