//! Random histories of a limit that changes, on a backend and by the models of the suite.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::task::JoinSet;
use tollgate::{
    backend::Backend,
    testing::{
        driver::{Driver, VERSIONS},
        history::live_through,
    },
};

/// The batches of a history: about 4000 operations on single buckets.
const STEPS: u32 = 2000;

/// Runs as many histories, several at once, so that a store decides for many callers.
pub(crate) async fn agree(backend: impl Backend, histories: u64) {
    let driver = Driver::new(backend);
    let versions: Arc<[usize]> = VERSIONS.collect();
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
