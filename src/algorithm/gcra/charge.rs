//! Charges and refunds: from one TAT to the next.

use super::gcra::Gcra;
use crate::algorithm::ticks::{MAX_TICKS_US, Tat, Ticks, narrow};

impl Gcra {
    /// The new TAT if a request of `cost` passes at `now` (µs since the epoch), or `None` if it is
    /// denied.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn spend(&self, tat: Tat, now: u64, cost: u32) -> Option<Tat> {
        self.spend_within(tat, now, cost, 0)
    }

    /// Returns the new TAT for a request that can wait in line for `wait_us` microseconds.
    #[inline]
    pub(crate) fn spend_within(&self, tat: Tat, now: u64, cost: u32, wait_us: u64) -> Option<Tat> {
        let next = self.add(self.lifted(tat, now), self.increment(cost));
        (next <= self.horizon(now + wait_us)).then_some(next)
    }

    /// Returns the new TAT after a charge of `cost`, even into debt.
    ///
    /// The debt stops growing at [`MAX_TICKS_US`] after `now`.
    #[doc(hidden)]
    #[must_use]
    pub fn debit(&self, tat: Tat, now: u64, cost: u32) -> Tat {
        let tat = self.lifted(tat, now);
        let deepest = Ticks::from_micros(now.saturating_add(MAX_TICKS_US));
        self.add(tat, self.increment(cost)).min(deepest).max(tat)
    }

    /// Returns what a debit of `cost` that has moved a bucket from `before` to `after` took, if that is not all of the
    /// cost: the number of tokens, rounded up, and by how much the time taken is shorter than theirs.
    #[cold]
    pub(crate) fn taken_part(
        &self,
        before: Tat,
        after: Tat,
        now: u64,
        cost: u32,
    ) -> Option<(u32, Ticks)> {
        let before = self.lifted(before, now);
        if after == self.add(before, self.increment(cost)) {
            return None;
        }
        let taken = self.subtract(after, before);
        let tokens = self.units(taken).div_ceil(self.period_us());
        let tokens = u32::try_from(tokens).unwrap_or(cost);
        Some((tokens, self.subtract(self.increment(tokens), taken)))
    }

    /// Returns the new TAT after a refund of `cost`, never beyond full, or `None` if there is nothing to refund:
    /// a full bucket stays as it is.
    #[doc(hidden)]
    #[must_use]
    pub fn refund(&self, tat: Tat, now: u64, cost: u32) -> Option<Tat> {
        self.refund_charge(tat, now, self.increment(cost), None)
    }

    /// Refunds a span of time. `own` is the TAT right after the charge, if it is known.
    ///
    /// While a request waits in line, only the last one can give its slot back. Any other refund would move the next
    /// arrival into the slot of the last request, and both would start at the same time.
    #[inline]
    pub(crate) fn refund_charge(
        &self,
        tat: Tat,
        now: u64,
        span: Ticks,
        own: Option<Tat>,
    ) -> Option<Tat> {
        if self.is_waited_for(tat, now) && own != Some(tat) {
            return None;
        }
        self.refund_span(tat, now, span)
    }

    /// Returns whether the bucket has a line, and a request may be waiting in it.
    #[inline]
    fn is_waited_for(&self, tat: Tat, now: u64) -> bool {
        self.max_wait_us() > 0 && self.normal(tat) > self.horizon(now)
    }

    /// Returns the TAT before a charge of `cost` moved it to `tat`. The charge took less than the time of `cost`, by `short`.
    pub(crate) fn before_part(&self, tat: Tat, cost: u32, short: Ticks) -> Tat {
        self.subtract(tat, self.subtract(self.increment(cost), short))
    }

    /// Refunds a span without a line, or for the last request in line.
    #[inline]
    pub(crate) fn refund_span(&self, tat: Tat, now: u64, span: Ticks) -> Option<Tat> {
        let (tat, now) = (self.normal(tat), Ticks::from_micros(now));
        let owed = tat > now && span > Ticks::default();
        owed.then(|| self.subtract(tat, span).max(now))
    }

    /// Returns the time that `cost` takes under this limit or under `other`, whichever is less, in parts of this count,
    /// rounded down. Under `other`, the cost took less time than it usually does, by `short`.
    pub(crate) fn lesser_increment(&self, other: &Self, cost: u32, short: Ticks) -> Ticks {
        let (interval, others) = (self.interval(), other.interval());
        let is_less = interval
            .compare(self.count(), others, other.count())
            .is_le();
        if is_less && short == Ticks::default() {
            return self.increment(cost);
        }
        let span = other.subtract(other.increment(cost), short);
        let parts = u64::from(span.frac) * u64::from(self.count()) / u64::from(other.count());
        let span = Ticks {
            us: span.us,
            frac: narrow(parts),
        };
        match is_less {
            true => span.min(self.increment(cost)),
            false => span,
        }
    }

    /// Returns the new TAT after the same refund as moved another bucket from `before` to `after`, never
    /// beyond full.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn refund_as(&self, tat: Tat, before: Tat, after: Tat, now: u64) -> Tat {
        let full = Ticks::from_micros(now);
        if self.normal(tat) <= full || self.is_waited_for(tat, now) {
            return tat;
        }
        let given = self.subtract(self.lifted(before, now), self.lifted(after, now));
        self.subtract(self.normal(tat), given).max(full)
    }

    /// Returns the new TAT after the same charge as moved another bucket from `before` to `after`.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn charge_as(&self, tat: Tat, before: Tat, after: Tat, now: u64) -> Tat {
        self.charge_span(tat, self.beyond(after, before, now), now)
    }

    /// Returns the new TAT after a charge of a span, even into debt.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn charge_span(&self, tat: Tat, span: Ticks, now: u64) -> Tat {
        let deepest = Ticks::from_micros(now.saturating_add(MAX_TICKS_US));
        let tat = self.lifted(tat, now);
        self.add(tat, span).min(deepest).max(tat)
    }

    /// Returns how far a TAT is beyond another one at `now`, or zero.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn beyond(&self, tat: Tat, other: Tat, now: u64) -> Ticks {
        self.subtract(self.lifted(tat, now), self.lifted(other, now))
    }

    /// Returns how many tokens a span is worth, rounded up.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn tokens_in(&self, span: Ticks) -> u32 {
        let tokens = self.units(span).div_ceil(self.period_us());
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }
}
