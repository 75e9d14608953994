//! The conformance suite on each backend, and the backends against each other.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::sync::Arc;

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    backend::DenyCache,
    key::Everyone,
    limit::Language,
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
    history::live_through(scaled(8_000), 7, &[Arc::new(MemoryBackend::new())], "").await;
}

#[tokio::test]
async fn memory_and_map_agree_on_random_tiers() {
    for seed in 0..scaled(3) {
        let memory = Arc::new(MemoryBackend::with_max_buckets(4000));
        tiers_history::live_through(2000, seed, &[memory], "").await;
    }
}

#[test]
fn debug_of_a_whole_limiter_is_no_wall_of_text() {
    let mut limits = Limits::builder().limit("requests", Limit::per_hour(20));
    for n in 0..1000 {
        let account = format!("account-{n}");
        limits = limits.override_for("requests", &account, Limit::per_hour(100));
    }
    let builder = limits.overrides_text(Language::Json, "{}");
    let limits = builder.build().unwrap();
    let cached = DenyCache::new(MemoryBackend::new());
    let limiter = Limiter::new(limits.clone(), MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("requests", Everyone));
    let texts = [
        format!("{:?}", MemoryBackend::new()),
        format!("{cached:?}"),
        format!("{builder:?}"),
        format!("{limits:?}"),
        format!("{limiter:?}"),
        format!("{:?}", limiter.limit("requests").unwrap()),
        format!("{layer:?}"),
    ];
    for text in texts {
        assert!(text.len() < 2000, "{} bytes: {:.200}", text.len(), text);
        assert!(!text.contains("account-"), "{text}");
    }
}
