//! What buckets with tiers take of this process's memory, and who goes when there is no more.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

use allocation_counter::measure;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction, clock::ManualClock, tiers::Tier,
};

/// As many as one shard holds.
const CAP: usize = 4096;

/// What a bucket without tiers takes at most, with its share of places that are free.
const BUCKET: u64 = 32;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Limits of all kinds: without tiers, with one that slides, with a prison, and with as much as there can be.
fn limits() -> Limits {
    let day = Limit::per_day(1);
    let window = Tier::new(5, secs(60));
    let short = Tier::new(1, secs(1)).active(secs(1));
    let prison = Tier::new(1, secs(3600)).active(secs(3600));
    let high = Tier::new(4096, secs(60));
    let sixteen = (0..16).map(|_| Tier::new(9, secs(1)).active(secs(60)));
    Limits::builder()
        .limit("gcra", day)
        .limit("window", Limit::tiers([window]).unwrap())
        .limit("short", Limit::tiers([short]).unwrap())
        .limit("prison", Limit::tiers([short, prison]).unwrap())
        .limit("high", Limit::tiers([high]).unwrap())
        .limit("sixteen", Limit::tiers(sixteen).unwrap())
        .build()
        .unwrap()
}

fn limiter() -> (Limiter, ManualClock) {
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits(), MemoryBackend::with_max_buckets(CAP));
    (limiter.with_clock(clock.clone()), clock)
}

/// Spends from so many new buckets.
fn flood(limiter: &Limiter, limit: &str, cost: u32, buckets: usize) {
    for number in 0..buckets {
        let id = number.to_string();
        let spend = Transaction::new(limit, &id).cost(cost);
        limiter.try_spend(&spend).unwrap().unwrap();
    }
}

/// How many of so many buckets have nothing left.
async fn denied(limiter: &Limiter, limit: &str, buckets: usize) -> usize {
    let mut denied = 0;
    for number in 0..buckets {
        let id = number.to_string();
        let check = Transaction::new(limit, &id);
        denied += usize::from(!limiter.check(&check).await.unwrap().allowed());
    }
    denied
}

/// What is taken while some floods come one after the other: at most, and at last.
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
fn no_flood_takes_more_than_the_cap() {
    let most = BUCKET * CAP as u64;
    // (floods; what they may take at most, and at last, in parts of the cap)
    let floods: [(&[_], [f64; 2]); 7] = [
        (&[("window", 1, 8000)], [1.3, 1.05]),
        (&[("window", 5, 8000)], [1.3, 1.05]),
        (&[("prison", 2, 8000)], [1.3, 1.05]),
        (&[("sixteen", 16, 5000)], [1.3, 1.05]),
        (&[("high", 4096, 200)], [1.3, 1.05]),
        // The table of those without tiers grows by copying, by a quarter, and gives a half back to the others.
        (&[("gcra", 1, 8000), ("window", 5, 8000)], [2.6, 1.6]),
        (
            &[
                ("sixteen", 144, 5000),
                ("gcra", 1, 8000),
                ("high", 400, 200),
            ],
            [2.6, 1.6],
        ),
    ];
    for (floods, bounds) in floods {
        // With what limits and counters take.
        let ones: Vec<_> = floods
            .iter()
            .map(|(limit, cost, _)| (*limit, *cost, 1))
            .collect();
        let [_, nothing] = taken(&ones);
        let taken = taken(floods).map(|bytes| bytes - nothing);
        for (taken, bound) in taken.into_iter().zip(bounds) {
            #[expect(clippy::cast_precision_loss, reason = "these are small")]
            let part = taken as f64 / most as f64;
            assert!(part <= bound, "{part} of the cap after {floods:?}");
        }
    }
}

#[tokio::test]
async fn each_kind_is_sure_of_its_half() {
    let (limiter, _) = limiter();
    flood(&limiter, "gcra", 1, CAP);
    flood(&limiter, "window", 5, 20_000);
    let kept = denied(&limiter, "gcra", CAP).await;
    assert!((CAP / 2..CAP).contains(&kept), "{kept}");
    let (limiter, _) = self::limiter();
    flood(&limiter, "prison", 2, 100);
    flood(&limiter, "gcra", 1, 20_000);
    assert_eq!(denied(&limiter, "prison", 100).await, 100);
}

#[tokio::test]
async fn prisoner_outlives_a_flood_of_those_who_are_soon_free() {
    let (limiter, _) = limiter();
    flood(&limiter, "prison", 2, 100);
    flood(&limiter, "short", 1, 20_000);
    flood(&limiter, "gcra", 1, 20_000);
    assert_eq!(denied(&limiter, "prison", 100).await, 100);
}

#[tokio::test]
async fn those_who_are_free_again_make_room() {
    let (limiter, clock) = limiter();
    for _ in 0..200 {
        flood(&limiter, "short", 1, 200);
        clock.advance(secs(2));
    }
    flood(&limiter, "prison", 2, 10);
    assert_eq!(denied(&limiter, "prison", 10).await, 10);
}

#[test]
fn decision_on_a_bucket_that_is_there_allocates_nothing() {
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
