//! A fleet in one process, on simulated time. A seed decides everything that happens.
//!
//! Real limiters with each stack of wrappers share a store behind simulated connections. The store and the connections fail in all
//! the ways that `docs/failures.md` names. The properties are checked from outside: a client never gets more than twice its limit,
//! and exactly its limit while nothing fails; permits come back; decisions keep their deadline; and some seconds after the last
//! fault, everything is as before.
//!
//! `FLEET_SEED=17 cargo test --test fleet` repeats a seed, and `FLEET_SEEDS=2000` runs as many, from `FLEET_FIRST` on. A failure
//! prints its seed and the events that are needed for it. `FLEET_TRACE=1` prints what the store is asked.

#![cfg(all(feature = "failure-policy", feature = "redis"))]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod caller;
mod check;
mod clock;
mod draw;
mod fleet;
mod link;
#[allow(dead_code, reason = "it uses a part of it")]
#[path = "../support/log.rs"]
mod log;
mod network;
mod plan;
mod process;
mod record;
mod seeds;
#[path = "../support/store.rs"]
mod store;
mod terms;
mod threads;

#[test]
fn fleet_keeps_its_promises() {
    seeds::run();
}

#[test]
fn seed_decides_all_that_happens() {
    seeds::repeat();
}
