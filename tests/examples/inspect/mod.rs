//! The example `inspect` shows limits and buckets to administrators, and to no one else.

#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

#[path = "../../../examples/inspect/admin.rs"]
mod admin;
#[path = "../../../examples/inspect/block.rs"]
mod block;
#[path = "../../../examples/shared/bound.rs"]
mod bound;
#[path = "../../../examples/inspect/bucket.rs"]
mod bucket;
#[path = "../../../examples/shared/client.rs"]
mod client;
#[path = "../../../examples/inspect/refusal.rs"]
mod refusal;
#[path = "../../../examples/inspect/stream.rs"]
mod stream;
#[allow(dead_code, reason = "only the program reads its environment")]
#[path = "../../../examples/inspect/token.rs"]
mod token;

mod access;
mod blocks;
mod buckets;
mod process;
mod refusals;
mod server;
