//! Spans of time and instants, in microseconds.

use std::time::Duration;

use crate::{
    clock::Timestamp,
    varint::{self, Malformed},
};

/// An instant that never comes, and a span that never ends.
pub(crate) const NEVER: u64 = u64::MAX;

/// The wait for something that never happens.
pub(crate) const FOREVER: Duration = Duration::MAX;

/// Returns what is left of a wait `us` microseconds later.
pub(super) const fn later(wait: u64, us: u64) -> u64 {
    match wait {
        NEVER => NEVER,
        wait => wait.saturating_sub(us),
    }
}

/// Returns the instants that are not over yet, of some in ascending order.
#[inline]
pub(super) fn live(instants: &[u64], is_over: impl Fn(u64) -> bool) -> &[u64] {
    match instants {
        [oldest, ..] if is_over(*oldest) => {
            // Usually, few units have expired since the last request, so the search begins at the oldest.
            let mut reach = 1;
            while instants.get(reach).is_some_and(|next| is_over(*next)) {
                reach *= 2;
            }
            let near = &instants[..reach.min(instants.len())];
            &instants[near.partition_point(|instant| is_over(*instant))..]
        }
        instants => instants,
    }
}

/// The latest instant at which anything is charged.
pub(super) const LATEST_US: u64 = Timestamp::END.as_micros() - 1;

/// Reads the instant of a charge.
pub(super) fn read_instant(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    match varint::read(bytes)? {
        us if us <= LATEST_US => Ok(us),
        _ => Err(Malformed::Impossible("a charge after the year 2112")),
    }
}
