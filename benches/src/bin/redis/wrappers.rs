//! The cost and the benefit of the wrappers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RedisBackend, Transaction,
    backend::{
        Backend, BackendError, DenyCache, FailurePolicy, Lease, async_trait,
        custom::{Batch, Outcome},
    },
    limit::LimitName,
};

use crate::{
    callers::{self, CALLERS},
    sides::{PATIENCE, limiter, spend},
    statistics::{median, ratio},
    throughput::{CALLS, TURNS},
};

/// Counts the calls that reach a store.
#[derive(Debug)]
struct Counted<B>(B, AtomicU64);

#[async_trait]
impl<B: Backend> Backend for Counted<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.apply(batch).await
    }
}

/// One limit with leases, which all callers share and which denies nothing.
pub(crate) async fn leased(store: impl Backend, get: f64) {
    const DECISIONS: u32 = CALLS * 100;
    let name = LimitName::from("leased").lease(1, 20);
    let limit = Limit::per_second(1_000_000_000).burst(1_000_000);
    let limits = Limits::builder().limit(name, limit).build();
    let store = Arc::new(Counted(store, AtomicU64::new(0)));
    let lease = Lease::new(DenyCache::new(Arc::clone(&store)), 4);
    let policy = FailurePolicy::new(lease).deadline(PATIENCE);
    let limiter = Limiter::new(limits.expect("the limit is one"), policy);
    let (mut rates, mut decisions) = (Vec::new(), 0);
    for _ in 0..TURNS {
        let rate = callers::rate(DECISIONS, |_| {
            let limiter = limiter.clone();
            async move {
                for _ in 0..callers::each(DECISIONS) {
                    spend(&limiter, "leased", "everyone").await;
                }
            }
        });
        rates.push(rate.await);
        decisions += u64::from(callers::each(DECISIONS) * CALLERS);
    }
    let (rate, calls) = (median(&rates), store.1.load(Ordering::Relaxed));
    println!("one leased limit, {CALLERS} callers, decisions per second:");
    println!(
        "  {rate:.0}, which is {:.1} of GET; {calls} of {decisions} decisions reached the store",
        rate / get
    );
}

/// Requests of clients whose buckets are empty, with the cache and without.
pub(crate) async fn flood(bare: impl Fn() -> RedisBackend) {
    const CLIENTS: u32 = 1_000;
    let sides = [limiter(bare()), limiter(DenyCache::new(bare()))];
    let ids: Arc<Vec<_>> = Arc::new((0..CLIENTS).map(|n| format!("denied-{n}")).collect());
    for id in &*ids {
        for limiter in sides.iter().chain(&sides) {
            let _ = limiter.spend(&Transaction::new("denied", id)).await;
        }
    }
    let mut rates = [const { Vec::new() }; 2];
    for _ in 0..TURNS {
        for ((limiter, rates), calls) in sides.iter().zip(&mut rates).zip([CALLS, CALLS * 20]) {
            let rate = callers::rate(calls, |caller| {
                let (limiter, ids) = (limiter.clone(), Arc::clone(&ids));
                async move {
                    for call in 0..callers::each(calls) {
                        let id = &ids[((caller + call * 7) % CLIENTS) as usize];
                        let denied = limiter.spend(&Transaction::new("denied", id)).await;
                        assert!(!denied.expect("Redis answers").allowed());
                    }
                }
            });
            rates.push(rate.await);
        }
    }
    let [bare, cached] = rates.map(|rates| median(&rates));
    println!("a flood of {CLIENTS} denied clients, requests per second:");
    println!(
        "  bare {bare:.0}, deny cache {cached:.0}, which is {:.0} times as many",
        cached / bare
    );
}

/// A store that cannot be reached.
#[derive(Debug)]
struct Lost;

#[async_trait]
impl Backend for Lost {
    async fn apply(&self, _: &Batch<'_>) -> Result<Outcome, BackendError> {
        Err(BackendError::unavailable("it is not there"))
    }
}

/// Decisions while the breaker is open, beside those of memory alone.
pub(crate) async fn open_breaker() {
    let sides = [
        limiter(MemoryBackend::new()),
        limiter(FailurePolicy::new(DenyCache::new(Lost))),
    ];
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..TURNS * 5 {
        for (limiter, times) in sides.iter().zip(&mut times) {
            let begun = Instant::now();
            for _ in 0..CALLS {
                spend(limiter, "open", "client").await;
            }
            times.push(begun.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
        }
    }
    let [memory, open] = &times;
    println!("one caller while the breaker is open, nanoseconds:");
    println!(
        "  memory {:.0}, policy {:.0}, which is {:.2} of memory",
        median(memory),
        median(open),
        ratio(open, memory)
    );
}
