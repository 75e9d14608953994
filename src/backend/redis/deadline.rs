//! The deadline of a decision.

use std::time::Duration;

use tokio::time::{self, Instant};

use super::error::RedisError;

/// The instant at which a decision is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Deadline(Instant);

/// The longest that a call may take. Clocks and timers cannot represent every [`Duration`].
pub(super) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

impl Deadline {
    pub(super) fn after(timeout: Duration) -> Self {
        Self(Instant::now() + timeout.min(LONGEST))
    }

    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }

    /// Returns the time left, which is never zero: fred would wait forever.
    pub(super) fn left(self) -> Result<Duration, RedisError> {
        let left = self.0.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(RedisError::Timeout),
            false => Ok(left),
        }
    }

    pub(super) async fn limit<T>(self, future: impl Future<Output = T>) -> Result<T, RedisError> {
        time::timeout_at(self.0, future)
            .await
            .map_err(|_| RedisError::Timeout)
    }
}
