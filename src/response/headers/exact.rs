//! Parameters of our own in `RateLimit-Policy` and `RateLimit`, after the standard ones: what these have in whole seconds, in
//! microseconds. The draft reserves no prefix, so the names begin with that of the crate.

use crate::{algorithm::Refill, response::text::ResponseText};

/// The largest integer of a structured field.
const MOST: u64 = 999_999_999_999_999;

/// Adds how units come back, and the cost of a request if it is not 1, to an item of `RateLimit-Policy`.
pub(super) fn add_refill(item: &mut ResponseText, refill: Refill, cost: u32) {
    if refill.us() > MOST {
        return;
    }
    match refill {
        Refill::Steady { count, period_us } => {
            item.parameter(";tollgate-count=", count);
            item.parameter(";tollgate-period=", period_us);
        }
        Refill::Windowed { us } => item.parameter(";tollgate-window=", us),
    }
    if cost != 1 {
        item.parameter(";tollgate-cost=", cost);
    }
}

/// Adds the microseconds until there is more to an item of `RateLimit`, if a structured field can hold them.
#[inline]
pub(super) fn add_wait(item: &mut ResponseText, us: u64) {
    if us <= MOST {
        item.parameter(";tollgate-t=", us);
    }
}
