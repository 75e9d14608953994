//! Linearizability: short histories of several clients are explained by some order, on each stack of wrappers. Faults that
//! are planted are found.

#![cfg(feature = "failure-policy")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod checker;
mod planted;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, BackendError, DenyCache, FailurePolicy, Lease, async_trait},
    clock::ManualClock,
    decision::{Outcome, Source},
    limit::LimitName,
    transaction::{Batch, OnFailure},
};

use self::{
    checker::{Answer, BUCKETS, Call, Event, Model},
    planted::{RefundsTheUnknown, RefundsTwice, RenewsBudget, SwapsAnswers},
};
use crate::support::scale::scaled;

const BURST: u32 = 10;
const NAMES: [&str; BUCKETS] = ["a", "b"];

/// Numbers that are the same in each run.
#[derive(Clone, Debug)]
struct Random(Arc<AtomicU64>);

impl Random {
    fn new(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    fn below(&self, n: u64) -> u64 {
        let next = |seed: u64| Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let seed = self.0.fetch_update(SeqCst, SeqCst, next).unwrap();
        (seed >> 33) % n
    }

    /// Lets others run for a while.
    async fn pause(&self) {
        for _ in 0..self.below(4) {
            tokio::task::yield_now().await;
        }
    }
}

/// A store that is reached and left by ways of any length, and loses some calls and some answers.
#[derive(Debug)]
struct Store {
    memory: MemoryBackend,
    random: Random,
    loses: bool,
}

#[async_trait]
impl Backend for Store {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let lost = || Err(BackendError::unavailable("lost"));
        let fate = self.random.below(12);
        self.random.pause().await;
        if self.loses && fate == 0 {
            return lost();
        }
        let decided = self.memory.apply(batch).await;
        self.random.pause().await;
        match self.loses && fate == 1 {
            true => lost(),
            false => decided,
        }
    }
}

/// What clients do, and how they are answered.
async fn history(limiter: &Limiter, random: &Random, closes: bool) -> Vec<Event> {
    let events = Arc::<Mutex<Vec<Event>>>::default();
    let now = Arc::new(AtomicU64::new(0));
    let clients = (0..3).map(|_| {
        let (limiter, random) = (limiter.clone(), random.clone());
        let (events, now) = (Arc::clone(&events), Arc::clone(&now));
        tokio::spawn(async move {
            for _ in 0..6 {
                random.pause().await;
                if closes && random.below(8) == 0 {
                    // Whatever is held is given back, unless that is lost.
                    tokio::time::sleep(Duration::from_secs(3)).await;
                }
                let call = call(&random);
                let begun = now.fetch_add(1, SeqCst);
                let answer = answer(&limiter, &call, &random).await;
                let ended = now.fetch_add(1, SeqCst);
                let event = Event {
                    call,
                    answer,
                    begun,
                    ended,
                };
                events.lock().unwrap().push(event);
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    std::mem::take(&mut events.lock().unwrap())
}

fn call(random: &Random) -> Call {
    let cost = || u32::try_from(1 + random.below(3)).unwrap();
    match random.below(8) {
        0 | 1 => Call::Refund(usize::from(random.below(2) > 0), cost()),
        2 => Call::Spend([cost(), cost()]),
        3 => Call::Spend([0, cost()]),
        _ => Call::Spend([cost(), 0]),
    }
}

/// Calls, and now and then leaves before the answer is there.
async fn answer(limiter: &Limiter, call: &Call, random: &Random) -> Answer {
    let leaves = random.below(10) == 0;
    let answer = async {
        match call {
            Call::Refund(bucket, cost) => {
                let refund = Transaction::new(NAMES[*bucket], "id").cost(*cost);
                let refunded = limiter.refund(&refund).await;
                refunded.map_or(Answer::Unknown, |_| Answer::Refunded)
            }
            Call::Spend(costs) => spend(limiter, costs).await,
        }
    };
    let mut answer = std::pin::pin!(answer);
    if !leaves {
        return answer.await;
    }
    for _ in 0..1 + random.below(4) {
        if let Some(answer) = futures_util::FutureExt::now_or_never(&mut answer) {
            return answer;
        }
        tokio::task::yield_now().await;
    }
    Answer::Unknown
}

async fn spend(limiter: &Limiter, costs: &[u32; BUCKETS]) -> Answer {
    let meant = |(_, cost): &(usize, &u32)| **cost > 0;
    let places: Vec<_> = costs.iter().enumerate().filter(meant).collect();
    let batch = places
        .iter()
        .map(|(place, cost)| Transaction::new(NAMES[*place], "id").cost(**cost));
    let batch: Vec<_> = batch.collect();
    let Ok(decided) = limiter.spend_batch(&batch).await else {
        return Answer::Unknown;
    };
    if !decided.allowed() {
        return Answer::Denied;
    }
    let mut left = [None; BUCKETS];
    for ((place, _), decision) in places.iter().zip(decided.members()) {
        if decision.source() == Source::Store {
            left[*place] = decision.remaining();
        }
    }
    Answer::Passed(left)
}

/// How many of so many histories on a stack are not explained.
async fn unexplained(
    histories: u64,
    leases: bool,
    loses: bool,
    stack: impl Fn(Store) -> Box<dyn FnOnce(Limits) -> Limiter>,
) -> u64 {
    let mut unexplained = 0;
    for seed in 0..histories {
        let random = Random::new(seed);
        let store = Store {
            memory: MemoryBackend::new(),
            random: random.clone(),
            loses,
        };
        let limit = Limit::per_day(BURST);
        let limits = NAMES.iter().fold(Limits::builder(), |limits, name| {
            let name = LimitName::from(*name).on_failure(OnFailure::Refuse);
            let name = if leases { name.lease(1, 5) } else { name };
            limits.limit(name, limit.clone())
        });
        let limiter = stack(store)(limits.build().unwrap()).with_clock(ManualClock::default());
        let events = history(&limiter, &random, leases).await;
        let model = Model {
            burst: BURST,
            reserves: leases,
        };
        unexplained += u64::from(!model.explains(&events));
    }
    unexplained
}

/// A limiter on a backend, once it has its limits.
fn on(backend: impl Backend) -> Box<dyn FnOnce(Limits) -> Limiter> {
    Box::new(|limits| Limiter::new(limits, backend))
}

fn histories() -> u64 {
    scaled(100_u64)
}

#[tokio::test(start_paused = true)]
async fn each_stack_is_linearizable() {
    for loses in [false, true] {
        let bare = unexplained(histories(), false, loses, on);
        assert_eq!(bare.await, 0);
        let cached = |store| on(DenyCache::new(store));
        assert_eq!(unexplained(histories(), false, loses, cached).await, 0);
        let policy = |store| on(FailurePolicy::new(DenyCache::new(store)));
        assert_eq!(unexplained(histories(), false, loses, policy).await, 0);
        let leases = |store| on(FailurePolicy::new(Lease::new(DenyCache::new(store), 1)));
        assert_eq!(unexplained(histories(), true, loses, leases).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn planted_faults_are_found() {
    let unknown = |store| on(RefundsTheUnknown(store));
    assert!(unexplained(histories(), false, true, unknown).await > 0);
    let swaps = |store| on(SwapsAnswers::new(store));
    assert!(unexplained(histories(), false, false, swaps).await > 0);
    let renews = |_| on(RenewsBudget::default());
    assert!(unexplained(histories(), false, false, renews).await > 0);
    let twice = |store| on(Lease::new(RefundsTwice(store), 1));
    assert!(unexplained(histories(), true, false, twice).await > 0);
}
