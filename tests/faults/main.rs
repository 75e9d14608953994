//! Faults of real servers under load, behind the whole stack: a policy, around a cache of denials, around Redis.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod drops;
#[path = "../support/eventually.rs"]
mod eventually;
mod failover;
mod leases;
mod load;
mod network;
mod permits;
#[path = "../redis_support/mod.rs"]
mod redis_support;
mod report;
mod server;
mod stack;
#[path = "../support/mod.rs"]
mod support;
