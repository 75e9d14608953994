//! Tests of things that a process has one of: memory, whose allocations are counted, subscribers, recorders, and counters of the
//! library.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{env, process::Command};

mod allocations;
mod checks;
#[cfg(all(feature = "axum", feature = "redis"))]
#[path = "../support/eventually.rs"]
mod eventually;
mod links;
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
mod why_denied;
#[cfg(feature = "zones")]
mod zones;

/// Where Cargo puts the examples, next to the folder of the tests.
#[cfg(all(feature = "axum", feature = "redis"))]
const PROGRAMS: &str = "examples";

/// The variable that marks a process of [`alone`].
const ALONE: &str = "TOLLGATE_TEST_ALONE";

/// Whether this process runs nothing but `test`, named as in `cargo test -- --exact`. If not, this runs it in one that does.
#[track_caller]
pub(crate) fn alone(test: &str) -> bool {
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", test]);
    let output = command.env(ALONE, "1").output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stdout.contains(" 1 passed"),
        "{stdout}{stderr}"
    );
    false
}
