//! Whole seconds for headers.

use std::time::Duration;

/// Rounds up, so that a client that waits for so long is not too early.
pub(crate) fn ceil_secs(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_add(u64::from(duration.subsec_nanos() > 0))
}
