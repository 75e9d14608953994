//! `X-RateLimit-Remaining` and `X-RateLimit-Reset`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName};

use super::field::{Left, single, whole};

const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// A reset of this many seconds or more counts from 1970. From now, it would be 31 years away.
const EPOCH_SECS: u64 = 1_000_000_000;
/// The same bound in milliseconds.
const EPOCH_MS: u64 = 1_000_000_000_000;

pub(super) fn read(headers: &HeaderMap, now: SystemTime) -> Option<Left> {
    let remaining = whole(single(headers, &REMAINING)?)?;
    let reset = || single(headers, &RESET).and_then(whole);
    let wait = match remaining {
        0 => reset().map(|reset| until(reset, now)),
        _ => None,
    };
    Some(Left { remaining, wait })
}

fn until(reset: u64, now: SystemTime) -> Duration {
    let since = match reset {
        0..EPOCH_SECS => return Duration::from_secs(reset),
        EPOCH_SECS..EPOCH_MS => Duration::from_secs(reset),
        _ => Duration::from_millis(reset),
    };
    since.saturating_sub(now.duration_since(UNIX_EPOCH).unwrap_or_default())
}
