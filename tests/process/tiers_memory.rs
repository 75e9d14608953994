//! The memory of histories and rows, and their eviction at the cap.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

use allocation_counter::measure;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction, clock::ManualClock, tiers::Tier,
};
use tracing::subscriber::NoSubscriber;

/// As many as one shard holds.
const CAP: usize = 4096;

/// The most bytes of a GCRA bucket, and the bytes of histories for each of them.
const BUCKET: u64 = 32;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Limits of all kinds: without tiers, with a sliding one, with a penalty, and with the most units and tiers.
fn limits() -> Limits {
    let day = Limit::per_day(1);
    let window = Tier::new(5, secs(60));
    let short = Tier::new(1, secs(1)).active(secs(1));
    let prison = Tier::new(1, secs(3600)).active(secs(3600));
    let high = Tier::new(4096, secs(60));
    let sixteen = (0..16).map(|_| Tier::new(9, secs(1)).active(secs(60)));
    Limits::builder()
        .limit("gcra", day)
        .limit("burst", Limit::per_hour(1).burst(100))
        .limit("units", Limit::window(4096, secs(60)))
        .limit("window", Limit::tiers([window]).unwrap())
        .limit("short", Limit::tiers([short]).unwrap())
        .limit("prison", Limit::tiers([short, prison]).unwrap())
        .limit("high", Limit::tiers([high]).unwrap())
        .limit("sixteen", Limit::tiers(sixteen).unwrap())
        .build()
        .unwrap()
}

fn limiter() -> (Limiter, ManualClock) {
    limiter_on(limits(), MemoryBackend::with_max_buckets(CAP))
}

fn limiter_on(limits: Limits, backend: MemoryBackend) -> (Limiter, ManualClock) {
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits, backend);
    (limiter.with_clock(clock.clone()), clock)
}

fn spend(limiter: &Limiter, limit: &str, id: &str, cost: u32) -> bool {
    let spend = Transaction::new(limit, id).cost(cost);
    limiter.try_spend(&spend).unwrap().unwrap().allowed()
}

/// Spends from this number of new buckets.
fn flood(limiter: &Limiter, limit: &str, cost: u32, buckets: usize) {
    for number in 0..buckets {
        let id = number.to_string();
        let spend = Transaction::new(limit, &id).cost(cost);
        limiter.try_spend(&spend).unwrap().unwrap();
    }
}

/// Returns the memory that is taken while some floods follow each other: the most, and that at the end.
fn taken(floods: &[(&str, u32, usize)]) -> [u64; 2] {
    let mut kept = None;
    let taken = measure(|| {
        let (limiter, _) = limiter();
        for (limit, cost, buckets) in floods {
            flood(&limiter, limit, *cost, *buckets);
        }
        kept = Some(limiter);
    });
    [taken.bytes_max, taken.bytes_current.unsigned_abs()]
}

#[test]
fn no_flood_takes_more_than_its_budget() {
    let most = BUCKET * CAP as u64;
    // A map is copied as it grows, so up to twice the budget is in use for a moment. With rows of another kind there are two
    // budgets, one for each kind.
    let floods: [(&[_], u64); 8] = [
        (&[("units", 400, 2000)], 1),
        (&[("window", 1, 8000)], 1),
        (&[("window", 5, 8000)], 1),
        (&[("prison", 2, 8000)], 1),
        (&[("sixteen", 16, 5000)], 1),
        (&[("high", 4096, 200)], 1),
        (&[("gcra", 1, 8000), ("window", 5, 8000)], 2),
        (
            &[
                ("sixteen", 144, 5000),
                ("gcra", 1, 8000),
                ("high", 400, 200),
            ],
            2,
        ),
    ];
    for (floods, budgets) in floods {
        // With what limits and counters take.
        let ones: Vec<_> = floods
            .iter()
            .map(|(limit, cost, _)| (*limit, *cost, 1))
            .collect();
        let [_, nothing] = taken(&ones);
        let [at_most, at_last] = taken(floods).map(|bytes| bytes - nothing);
        assert!(at_most <= 2 * budgets * most, "{at_most} after {floods:?}");
        assert!(at_last <= budgets * most, "{at_last} after {floods:?}");
    }
}

#[test]
fn gcra_at_the_cap_does_not_allocate() {
    let (limiter, _) = limiter();
    flood(&limiter, "gcra", 1, 2 * CAP);
    let ids: Vec<_> = (0..20_000).map(|n| format!("new {n}")).collect();
    let taken = measure(|| {
        for id in &ids {
            assert!(spend(&limiter, "gcra", id, 1), "{id} is a newcomer");
        }
    });
    assert_eq!(taken.count_total, 0);
}

#[test]
fn no_history_passes_repeatedly_in_one_instant() {
    let high = Limit::tiers([Tier::new(4096, secs(3600))]).unwrap();
    let limits = Limits::builder().limit("high", high);
    let limits = limits.limit("gcra", Limit::per_day(1)).build().unwrap();
    let backend = MemoryBackend::with_max_buckets(1000).max_history_bytes(40_000);
    let (limiter, _) = limiter_on(limits, backend);
    let passed = (0..10).filter(|n| {
        assert!(spend(&limiter, "gcra", &n.to_string(), 1));
        spend(&limiter, "high", "client", 4096)
    });
    assert_eq!(passed.count(), 1);
}

#[test]
fn decision_on_a_bucket_that_is_there_allocates_nothing() {
    // Looking for a thread's subscriber allocates once, but only while another thread has one.
    let _guard = tracing::subscriber::set_default(NoSubscriber::default());
    let (limiter, clock) = limiter();
    let spend = |limit, cost| {
        let spend = Transaction::new(limit, "id").cost(cost).min_cost(1);
        limiter.try_spend(&spend).unwrap().unwrap().granted()
    };
    for (limit, cost, most) in [("window", 5, 5), ("prison", 2, 2), ("high", 4096, 4096)] {
        assert_eq!(spend(limit, cost), most);
        // The first denial of a limit asks for its counter.
        assert_eq!(spend(limit, cost), 0);
        let denied = measure(|| assert_eq!(spend(limit, cost), 0));
        assert_eq!(denied.count_total, 0, "{limit}");
        for _ in 0..10 {
            clock.advance(secs(7200));
            let granted = measure(|| assert_eq!(spend(limit, cost), most));
            assert_eq!(granted.count_total, 0, "{limit}");
        }
    }
}
