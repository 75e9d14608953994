//! What a limit admits: in a span of time, at once, and of each kind of request.

use std::time::Duration;

/// The bounds of an algorithm's limits.
pub(crate) trait Bounded: Sized {
    /// The measure that bounds the cost of one request, in words.
    const MEASURE: &'static str;

    /// Returns the highest cost that can ever pass.
    fn max_cost(&self) -> u32;

    /// Returns the most cost that one bucket admits within a span `[t, t + span)`, which is not empty; `None` if nothing bounds
    /// it.
    fn most_within(&self, span: Duration) -> Option<u128>;

    /// Returns the same limit with less burst or quota, or with as much as before again. `None` if it has none, or if
    /// nothing is left.
    fn with_most(&self, most: u32) -> Option<Self> {
        let _ = most;
        None
    }

    /// Returns the time for which a charge counts after it was made or renewed, if charges are renewed.
    fn renewed_within(&self) -> Option<Duration> {
        None
    }

    /// Returns how long a request waits for permits that come back, at most.
    fn permit_wait(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns whether a store may forget a bucket, although it is not as a new one.
    #[cfg(feature = "testing")]
    fn may_be_forgotten(&self) -> bool {
        false
    }

    /// Returns whether a whole cost is known to be permitted, for any purpose.
    #[inline(always)]
    fn permits_any(&self, cost: u32) -> bool {
        cost <= self.max_cost()
    }

    /// Returns whether a cost could ever pass, or the reason why it must not be asked.
    fn permits(&self, asked: Asked) -> Result<bool, NotPermitted>;
}

/// A request to a limit, regardless of the state of the bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) purpose: Purpose,
    /// Whether the cost is a debit.
    pub(crate) is_debit: bool,
    pub(crate) cost: u32,
    /// The smallest acceptable grant of a group request.
    pub(crate) min_cost: Option<u32>,
}

/// Whether a cost is taken, given back or renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Take,
    /// Without a receipt.
    GiveBack,
    Renew,
}

/// The reason why an algorithm cannot do what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotPermitted {
    /// It cannot grant part of a cost.
    Part,
    /// The minimum of a group request is 0, or above its cost.
    Minimum(u32),
    /// Its grants cannot be refunded.
    Refund,
    /// It cannot be in debt.
    Debit,
    /// Its charges are not renewed.
    Renewal,
    /// Its permits can only be refunded by receipt.
    RefundOfPermits,
    /// Its permits cannot be debited.
    DebitOfPermits,
}

impl Asked {
    /// Returns whether a cost could ever pass where all of it passes or nothing. `most` is the highest cost of what is
    /// asked, if there is one.
    pub(super) fn whole(self, most: Option<u32>) -> Result<bool, NotPermitted> {
        match self.min_cost {
            Some(_) => Err(NotPermitted::Part),
            None => Ok(self.is_debit || most.is_none_or(|most| self.cost <= most)),
        }
    }
}

/// The messages for settings that only token buckets have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoTokenBucket {
    /// There is no burst to set.
    pub(crate) burst: &'static str,
    /// There is no line to wait in.
    pub(crate) line: &'static str,
}

/// Returns the microseconds of a span, rounded up.
pub(super) const fn ceil_micros(span: Duration) -> u128 {
    span.as_nanos().div_ceil(1000)
}
