//! Waiting for what other threads, processes and servers do.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{
    thread,
    time::{Duration, Instant},
};

/// The longest time for which a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Blocks the thread until a condition holds.
///
/// # Panics
///
/// Panics if it does not hold within [`PATIENCE`].
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(PAUSE);
    }
}

/// Waits until a condition holds, while other tasks run.
///
/// # Panics
///
/// Panics if it does not hold within [`PATIENCE`].
pub(crate) async fn eventually_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}
