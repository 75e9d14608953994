//! Requests to a history under a limit's tiers.

use std::ops::RangeInclusive;

use super::{grant::Grant, history::History, tiers::Tiers, view::TierView};
use crate::algorithm::time::NEVER;

impl Tiers {
    /// Grants as many units of a range as there is room for at `now` (µs since the epoch). If that is fewer than the
    /// start of the range, returns `None` and changes nothing.
    ///
    /// A wider range than needed can enter tiers that the start of the range would not have entered. A `now` before the
    /// last grant counts as the time of that grant.
    ///
    /// # Panics
    ///
    /// If the range begins with 0.
    #[doc(hidden)]
    pub fn request(
        &self,
        history: &mut History,
        now: u64,
        units: RangeInclusive<u32>,
    ) -> Option<Grant> {
        assert!(*units.start() > 0, "a request is for at least 1 unit");
        let grant =
            TierView::of(history, now)
                .windows(self)
                .plan(self, *units.start(), *units.end())?;
        history.take(self, grant, now);
        Some(grant)
    }

    /// Returns the time from `now`, in µs, until this many units would be granted if no other request arrived: zero if
    /// they would be granted now, `None` if never.
    ///
    /// It is not a reservation. A tier can end in the meantime, and a later request can then be denied.
    #[doc(hidden)]
    #[must_use]
    pub fn wait(&self, history: &History, now: u64, units: u32) -> Option<u64> {
        let wait = TierView::of(history, now).windows(self).wait(self, units);
        (wait != NEVER).then_some(wait)
    }

    /// Returns the number of units that would be granted at `now`.
    #[doc(hidden)]
    #[must_use]
    pub fn remaining(&self, history: &History, now: u64) -> u32 {
        TierView::of(history, now).windows(self).remaining(self)
    }

    /// The most that a [`History`] takes beyond its own size, in bytes, with what the allocator adds.
    pub(crate) fn max_allocated_bytes(&self) -> usize {
        let sliding = self.spans().iter().filter(|span| span.slides);
        let units = sliding.map(|span| span.limit);
        History::allocated_bytes_of(self.spans().len(), units)
    }
}
