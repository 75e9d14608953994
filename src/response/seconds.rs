//! Whole seconds for headers.

use std::time::Duration;

pub(super) fn ceil_secs(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_add(u64::from(duration.subsec_nanos() > 0))
}
