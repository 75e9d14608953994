//! The engine on memory, without HTTP, files or servers: its wrappers, limits that change, permits, receipts and ids.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod agreement;
mod auto_traits;
mod blocks;
mod bounds;
mod clocks;
mod deny_cache;
#[cfg(feature = "failure-policy")]
mod failure_policy;
mod flood;
mod ids;
#[cfg(feature = "failure-policy")]
mod lease;
mod line;
#[cfg(feature = "failure-policy")]
mod outages;
mod permits;
mod quotas;
mod ranges;
mod receipts;
mod reload;
mod shadow;
#[cfg(feature = "redis")]
mod split_batches;
#[path = "../support/mod.rs"]
mod support;
mod values;
mod vectors;

use tollgate::{Decision, Limiter, Transaction};

async fn spend(limiter: &Limiter, transaction: Transaction<'_>) -> Decision {
    limiter.spend(&transaction).await.unwrap()
}

async fn refund(limiter: &Limiter, transaction: Transaction<'_>) -> Decision {
    limiter.refund(&transaction).await.unwrap()
}
