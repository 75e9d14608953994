//! The conformance suite on each backend, and the backends against each other.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::sync::Arc;

use tollgate::{
    MemoryBackend,
    backend::DenyCache,
    testing::{
        MapBackend,
        cases::{history, tiers_history},
        conformance,
    },
};

use crate::support::scale::scaled;

conformance!(memory, MemoryBackend::new());
conformance!(memory_of_one_shard, MemoryBackend::with_max_buckets(4000));
conformance!(map, MapBackend::default());
conformance!(deny_cache, DenyCache::new(MapBackend::default()), without: [figures]);

#[tokio::test]
async fn memory_and_map_agree_on_random_histories() {
    history::live_through(scaled(20_000), 7, &[Arc::new(MemoryBackend::new())], "").await;
}

#[tokio::test]
async fn memory_and_map_agree_on_random_tiers() {
    for seed in 0..scaled(6) {
        let memory = Arc::new(MemoryBackend::with_max_buckets(4000));
        tiers_history::live_through(2000, seed, &[memory], "").await;
    }
}
