//! Memory decides as the models do when limits change between two batches: period, window, hold, limit and algorithm.

use tollgate::MemoryBackend;

#[cfg(feature = "zones")]
use crate::support::histories::agree_on_zones;
use crate::support::{histories::agree, scale::scaled};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_that_change_are_decided_as_by_the_models() {
    // Each history has a clock of its own. At the cap, one with a later clock would evict buckets that are not yet full by another's.
    let backend = MemoryBackend::new().max_history_bytes(1 << 30);
    agree(backend, scaled(20)).await;
}

#[cfg(feature = "zones")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_in_time_zones_are_decided_as_by_the_models() {
    agree_on_zones(MemoryBackend::new(), scaled(30)).await;
}
