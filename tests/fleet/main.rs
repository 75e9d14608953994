//! A fleet in one process, on simulated time. A seed decides everything that happens.
//!
//! Real limiters, with each stack of wrappers, run on paused runtimes, over a simulated store and network. What must always
//! hold is checked from outside: the published bounds, the accounts of the store, the log, the gauges, and that everything is
//! as if nothing had happened some seconds after the last fault.
//!
//! `FLEET_SEED=17 cargo test --test fleet` repeats a seed, and `FLEET_SEEDS=1000000` runs as many. A failure prints its seed and
//! the events that are needed for it.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod caller;
mod check;
mod clock;
mod draw;
mod faults;
mod fleet;
mod ledger;
mod limits;
mod link;
mod logs;
mod network;
mod plan;
mod process;
mod random;
mod record;
mod recovery;
mod request;
mod seeds;
mod server;
mod theme;
mod work;

#[test]
fn fleet_keeps_its_promises() {
    seeds::run();
}

#[test]
fn seed_decides_all_that_happens() {
    seeds::repeat();
}
