//! The engine on memory, without HTTP, files or servers: its arithmetic, ids, limits, backends and wrappers.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod acquire;
mod auto_traits;
mod backends;
mod blocks;
mod bounds;
mod concurrency;
mod custom_wrapper;
mod deny_cache;
mod docs;
mod extremes;
mod failure_policy;
mod fleet_size;
mod gcra_model;
mod give_backs;
mod handles;
#[cfg(feature = "failure-policy")]
#[path = "../linear/mod.rs"]
mod histories;
#[cfg(feature = "domains")]
mod ids;
mod lease;
#[cfg(feature = "tokio")]
mod lease_limiters;
mod limits;
mod linear;
mod overtaken;
mod payback;
#[cfg(feature = "tokio")]
mod permit_handles;
#[cfg(feature = "failure-policy")]
mod permit_wrappers;
mod permits;
mod receipts;
mod refund_bounds;
mod reload;
mod shadow;
#[path = "../support/mod.rs"]
mod support;
mod tiers_model;
mod vectors;
mod waiting;
mod waiting_model;
mod windows;
mod windows_model;
mod wrong_backends;
