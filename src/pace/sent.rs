//! Requests to a server, and their times.

use std::time::Duration;

/// Nanoseconds since the first request to a server.
pub(super) type Nanos = i64;

/// A request, as a bucket remembers it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentRequest {
    pub(super) number: u64,
    pub(super) at: Nanos,
}

/// How uneven the times are that requests take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Margin {
    /// The difference between the shortest and the longest time that a response took.
    pub(super) spread: Nanos,
    /// Whether requests wait for the bucket, so that it is used up to its limit.
    pub(super) is_throttled: bool,
}

/// Converts a time of at most ten years.
pub(super) fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX / 4)
}
