//! Parameters of our own in `RateLimit-Policy` and `RateLimit`, after the standard ones: what these have in whole seconds, in
//! microseconds. The draft reserves no prefix, so the names begin with that of the crate.

use std::fmt::Write;

use http::HeaderValue;

use crate::algorithm::Refill;

/// The wait until there is more, in µs.
pub(super) const WAIT: &str = ";tollgate-t=";

/// The largest integer of a structured field.
const MOST: u64 = 999_999_999_999_999;

/// Adds how units come back, and the cost of a request if it is not 1, to an item of `RateLimit-Policy`.
pub(super) fn policy(standard: &HeaderValue, refill: Option<Refill>, cost: u32) -> HeaderValue {
    let Some(refill) = refill.filter(|refill| refill.us() <= MOST) else {
        return standard.clone();
    };
    let mut added = String::new();
    let _ = match refill {
        Refill::Steady { count, period_us } => {
            write!(added, ";tollgate-count={count};tollgate-period={period_us}")
        }
        Refill::Windowed { us } => write!(added, ";tollgate-window={us}"),
    };
    if cost != 1 {
        let _ = write!(added, ";tollgate-cost={cost}");
    }
    let item = [standard.as_bytes(), added.as_bytes()].concat();
    HeaderValue::try_from(item).expect("limit names are ASCII")
}

/// Returns the microseconds of a wait, if a structured field can hold them.
#[inline]
pub(super) fn wait_us(wait: std::time::Duration) -> Option<u64> {
    let us = wait.as_secs().saturating_mul(1_000_000);
    let us = us.saturating_add(u64::from(wait.subsec_micros()));
    (us <= MOST).then_some(us)
}
