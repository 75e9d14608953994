//! `Retry-After`: how a wait becomes a value.

use std::time::Duration;

use http::HeaderValue;

use crate::decision::ceil_secs;

/// Returns the seconds after which a refused client can come back: rounded up, and at least 1, because 0 invites the
/// next request at once.
pub(super) fn seconds(wait: Duration) -> u64 {
    ceil_secs(wait).max(1)
}

/// Returns the value of the field, in one allocation of its size.
pub(super) fn value(seconds: u64) -> HeaderValue {
    let digits = HeaderValue::from_str(itoa::Buffer::new().format(seconds));
    digits.expect("digits are ASCII")
}
