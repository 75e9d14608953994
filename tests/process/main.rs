//! What a process has one of: memory, whose allocations are counted, subscribers, recorders, and counters of the library.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod allocations;
mod checks;
mod logging;
mod observability;
#[cfg(all(feature = "axum", feature = "redis"))]
#[path = "../programs/mod.rs"]
mod programs;
mod readme;
#[cfg(all(feature = "axum", feature = "redis"))]
#[path = "../redis_support/mod.rs"]
mod redis_support;
mod structure;
#[path = "../support/mod.rs"]
mod support;
mod tiers_memory;
