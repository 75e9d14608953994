//! Tests on real servers, which they start in directories of their own.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod agreement;
mod conformance;
#[path = "../../tests/support/eventually.rs"]
mod eventually;
mod faults;
mod processes;
mod roads;
mod server;

#[path = "../../tests/support/histories.rs"]
#[allow(
    unexpected_cfgs,
    unused_imports,
    reason = "a feature of the crate is none of this package"
)]
mod histories;
#[path = "../../tests/redis_support/process.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod process;
#[path = "../../tests/support/scale.rs"]
mod scale;
