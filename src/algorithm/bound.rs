//! What a limit admits: in a span of time, at once, and of each kind of request.

use std::time::Duration;

use super::{
    concurrency,
    counting::Counting,
    each::{Algorithm, Each, each, each_as, map_each},
    gcra::Gcra,
    quota, tiers, window,
};

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

impl Algorithm {
    /// Returns whether every operation is permitted with this cost, whole. If not, [`permits`](Self::permits) decides.
    #[inline(always)]
    pub(crate) fn permits_any(&self, cost: u32) -> bool {
        each!(self, by => by.permits_any(cost))
    }

    /// Returns whether a cost could ever pass, or the reason why it must not be asked.
    #[inline(never)]
    pub(crate) fn permits(&self, asked: Asked) -> Result<bool, NotPermitted> {
        if asked.purpose == Purpose::Renew && self.hold().is_none() {
            return Err(NotPermitted::Renewal);
        }
        each!(self, by => by.permits(asked))
    }

    /// Returns the time for which a charge counts after it was made or renewed, if charges are renewed.
    pub(crate) fn hold(&self) -> Option<Duration> {
        each!(self, by => by.renewed_within())
    }

    /// Returns how long a request waits for permits that come back, at most.
    pub(crate) fn permit_wait(&self) -> Duration {
        each!(self, by => by.permit_wait())
    }

    /// Returns the highest cost that can ever pass.
    pub(crate) fn max_cost(&self) -> u32 {
        each!(self, by => by.max_cost())
    }

    /// Returns the measure that bounds the cost of one request, in words.
    pub(crate) fn measure(&self) -> &'static str {
        each_as!(self, (By, This, _) => By::MEASURE)
    }

    /// Returns the most cost that one bucket admits within a span `[t, t + span)`, which is not empty; `None` if nothing bounds
    /// it.
    pub(crate) fn most_within(&self, span: Duration) -> Option<u128> {
        each!(self, by => by.most_within(span))
    }

    /// Returns the same limit with less burst or quota, or with as much as before again. `None` if it has none, or if
    /// nothing is left.
    pub(crate) fn with_most(&self, most: u32) -> Option<Self> {
        Some(map_each!(self, by => by.with_most(most)?))
    }

    /// Returns whether a store may forget a bucket, although it is not as a new one.
    #[cfg(feature = "testing")]
    pub(crate) fn may_be_forgotten(&self) -> bool {
        each!(self, by => by.may_be_forgotten())
    }

    /// Returns whether requests can wait in line.
    pub(crate) fn has_line(&self) -> bool {
        each!(self, by => by.has_line())
    }

    /// Returns the burst, count and period, or what to say if there are none.
    pub(crate) const fn token_bucket(&self) -> Result<Gcra, NoTokenBucket> {
        match self {
            Each::Gcra(gcra) => Ok(*gcra),
            Each::Tiers(_) => Err(tiers::NO_TOKEN_BUCKET),
            Each::Window(_) => Err(window::NO_TOKEN_BUCKET),
            Each::Quota(_) => Err(quota::NO_TOKEN_BUCKET),
            Each::Concurrency(_) => Err(concurrency::NO_TOKEN_BUCKET),
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
