//! What a limit admits, whatever its algorithm.

use std::time::Duration;

use super::algorithm::{Algorithm, each, each_as, map_each};
use crate::algorithm::{
    bound::{Asked, Bounded, NoTokenBucket, NotPermitted, Purpose},
    concurrency,
    counting::Counting,
    each::Each,
    gcra::Gcra,
    quota, tiers, window,
};

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
