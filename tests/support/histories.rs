//! Random histories of a limit that changes, on a backend and by the models of the suite.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinSet;
use tollgate::{
    Limit,
    backend::Backend,
    quota::{Per, UtcOffset},
    testing::{
        driver::{Driver, VERSIONS},
        history::live_through,
    },
    tiers::Tier,
};

/// The batches of a history: about 4000 operations on single buckets.
const STEPS: u32 = 2000;

/// Runs as many histories, several at once, so that a store decides for many callers.
pub(crate) async fn agree(backend: impl Backend, histories: u64) {
    let limits = versions();
    let versions: Arc<[usize]> = (VERSIONS..VERSIONS + limits.len()).collect();
    let driver = Driver::new(backend).versions(limits);
    let seeds = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..64 {
        let (driver, versions, seeds) = (driver.clone(), Arc::clone(&versions), Arc::clone(&seeds));
        tasks.spawn(async move {
            let next = iter::repeat_with(|| seeds.fetch_add(1, Ordering::Relaxed));
            for seed in next.take_while(|seed| *seed < histories) {
                live_through(&driver, &versions, STEPS, seed).await;
            }
        });
    }
    tasks.join_all().await;
}

/// The versions of the limit that changes. An algorithm with more to vary gets more of them.
fn versions() -> [Limit; 23] {
    let secs = Duration::from_secs;
    let millis = Duration::from_millis;
    let west = UtcOffset::minutes(-59);
    let of_tier = |limit, length| Tier::new(limit, secs(length)).active(secs(9));
    [
        Limit::per_second(5).burst(10),
        Limit::per(7, secs(1)).burst(4),
        Limit::per(3, Duration::from_micros(1_000_001)).burst(20),
        Limit::per_second(5).burst(10).max_wait(secs(1)),
        Limit::per_hour(1_000_003).burst(90),
        Limit::window(10, secs(2)),
        Limit::window(90, millis(300)),
        Limit::window(300, secs(6)),
        Limit::window(500, secs(600)),
        Limit::quota(10, Per::Hour),
        Limit::quota(90, Per::Day),
        Limit::quota(20, Per::Day.at_offset(west)),
        Limit::quota(40, Per::Week.at_offset(west)),
        Limit::quota(60, Per::Month),
        Limit::quota(10, Per::first_use(secs(3))),
        Limit::quota(30, Per::first_use(secs(24 * 3600))),
        Limit::quota(50, Per::first_use(secs(720 * 3600))),
        Limit::concurrent(10).hold(secs(4)),
        Limit::concurrent(3).hold(secs(1)),
        Limit::concurrent(90).hold(secs(60)),
        Limit::concurrent(300).hold(secs(600)),
        Limit::tiers([of_tier(6, 3)]).unwrap(),
        Limit::tiers([of_tier(3, 1), of_tier(60, 4)]).unwrap(),
    ]
}
