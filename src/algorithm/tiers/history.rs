mod bytes;

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::{
    grant::Grant,
    tier::{Phase, Span, end},
    tiers::Tiers,
    view::{Grants, TierView, TierWindow},
};
use crate::{
    algorithm::time::{NEVER, live},
    heap::allocated,
};

/// The grants of a bucket with [`Tiers`](super::Tiers), which are its whole stored state. The default is an unused
/// bucket.
///
/// The [module docs](super) have an example. It takes up to 8 bytes for each unit of a window that slides, and some 50
/// for each tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The time of the last grant.
    last: u64,
    logs: SmallVec<[Log; 1]>,
}

/// The grants of one tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Log {
    /// The time of the last entry.
    entry: Option<u64>,
    units: TierUnits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TierUnits {
    /// The number of units since the tier was entered. None of them leaves the window before the tier ends, so they
    /// count as if all were granted on entry.
    Counted(u32),
    /// The time of each, oldest first.
    Logged(VecDeque<u64>),
}

impl Default for TierUnits {
    fn default() -> Self {
        Self::Counted(0)
    }
}

impl History {
    /// Returns each tier's phase at `now` (µs since the epoch), the time of its last entry, and the number of units in its
    /// window, lowest first.
    #[doc(hidden)]
    #[must_use]
    pub fn tiers(
        &self,
        tiers: &Tiers,
        now: u64,
    ) -> impl ExactSizeIterator<Item = (Phase, Option<u64>, u32)> + use<> {
        let seen: Vec<_> = TierView::of(self, now).windows(tiers).tiers().collect();
        seen.into_iter()
    }

    /// Returns the instant (µs since the epoch) from which no decision depends on these grants, if no others follow.
    /// The history can be forgotten then. Returns `u64::MAX` if there is no such instant.
    ///
    /// For a lowest tier that never ends, only its window matters: such a tier decides the same, entered or not.
    #[doc(hidden)]
    #[must_use]
    pub fn lapses_at(&self, tiers: &Tiers) -> u64 {
        let logs = tiers.spans().iter().zip(&self.logs).enumerate();
        let ends = logs.map(|(i, (span, log))| match i {
            0 if span.active == NEVER => log.window_ends(span),
            0 => log.window_ends(span).max(span.ends(log.entry)),
            _ => span.ends(log.entry),
        });
        ends.max().unwrap_or(0)
    }

    /// Returns the memory that the history takes beyond its own size, in bytes.
    #[doc(hidden)]
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.allocations().sum()
    }

    /// Returns the same with what the allocator adds.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.allocations().map(allocated).sum()
    }

    fn allocations(&self) -> impl Iterator<Item = usize> {
        let logs = if self.logs.spilled() {
            self.logs.capacity() * size_of::<Log>()
        } else {
            0
        };
        let units = self.logs.iter().map(|log| match &log.units {
            TierUnits::Counted(_) => 0,
            TierUnits::Logged(times) => times.capacity() * size_of::<u64>(),
        });
        std::iter::once(logs).chain(units)
    }

    /// Returns the memory for a number of tiers, and for the units of each that slides.
    pub(super) fn allocated_bytes_of(tiers: usize, sliding: impl Iterator<Item = u32>) -> usize {
        let logs = if tiers > 1 {
            allocated(tiers * size_of::<Log>())
        } else {
            0
        };
        let units = sliding.map(|units| allocated(units as usize * size_of::<u64>()));
        logs + units.sum::<usize>()
    }

    /// Begins a history of another store, with the time of its last grant. The tiers are pushed lowest first.
    #[cfg(feature = "redis")]
    pub(crate) fn begin(last: u64, tiers: usize) -> Self {
        let logs = SmallVec::with_capacity(tiers);
        Self { last, logs }
    }

    /// Adds a tier that counts its units. Returns `None` if no grants lead to it.
    #[cfg(feature = "redis")]
    pub(crate) fn push_counted(&mut self, entry: Option<u64>, units: u32) -> Option<()> {
        self.push(entry, TierUnits::Counted(units))
    }

    /// Adds a tier with the times of its units, oldest first. Returns `None` if no grants lead to it.
    #[cfg(feature = "redis")]
    pub(crate) fn push_logged(&mut self, entry: Option<u64>, times: VecDeque<u64>) -> Option<()> {
        let is_past = times.back().is_none_or(|newest| *newest <= self.last);
        if !is_past || !times.iter().is_sorted() {
            return None;
        }
        self.push(entry, TierUnits::Logged(times))
    }

    #[cfg(feature = "redis")]
    fn push(&mut self, entry: Option<u64>, units: TierUnits) -> Option<()> {
        let is_possible = match entry {
            Some(entry) => entry <= self.last,
            None => units == TierUnits::default(),
        };
        self.logs.push(Log { entry, units });
        is_possible.then_some(())
    }

    /// Records a grant at `now`.
    pub(crate) fn take(&mut self, tiers: &Tiers, grant: Grant, now: u64) {
        let now = now.max(self.last);
        self.last = now;
        let spans = tiers.spans();
        if self.logs.len() != spans.len() {
            self.logs.truncate(spans.len());
            self.logs.reserve_exact(spans.len() - self.logs.len());
            self.logs.resize_with(spans.len(), Log::default);
        }
        for (i, units) in grant.parts(tiers) {
            self.logs[i].take(&spans[i], i == 0, units, now);
        }
    }
}

impl Grants for History {
    #[inline]
    fn now(&self, asked: u64) -> u64 {
        asked.max(self.last)
    }

    #[inline]
    fn entry(&self, tier: usize) -> Option<u64> {
        self.logs.get(tier)?.entry
    }

    #[inline]
    fn window(&self, tier: usize, span: &Span, now: u64) -> TierWindow<'_> {
        let log = self.logs.get(tier);
        log.map_or_else(TierWindow::default, |log| log.window(span, now))
    }
}

impl Log {
    fn window(&self, span: &Span, now: u64) -> TierWindow<'_> {
        match &self.units {
            TierUnits::Counted(units) => {
                let entry = self.entry.unwrap_or_default();
                let is_out = span.has_left(entry, now);
                TierWindow::counted(entry, if is_out { 0 } else { *units })
            }
            TierUnits::Logged(times) => {
                let has_left = |time| span.has_left(time, now);
                let (older, newer) = times.as_slices();
                TierWindow::logged(live(older, has_left), live(newer, has_left))
            }
        }
    }

    /// Returns the instant at which the last unit leaves the window.
    fn window_ends(&self, span: &Span) -> u64 {
        let newest = match &self.units {
            TierUnits::Counted(0) => None,
            TierUnits::Counted(_) => self.entry,
            TierUnits::Logged(times) => times.back().copied(),
        };
        newest.map_or(0, |newest| end(newest, span.window))
    }

    fn take(&mut self, span: &Span, is_lowest: bool, units: u32, now: u64) {
        let enters = Phase::of(span, self.entry, now) == Phase::Inactive;
        if enters && !is_lowest {
            self.units.clear();
        }
        match span.slides {
            true => self.log(span, units, now),
            false => {
                let used = self.window(span, now).used();
                self.units = TierUnits::Counted(used.saturating_add(units));
            }
        }
        if enters {
            self.entry = Some(now);
        }
    }

    /// Forgets the units that have left the window, and adds `units` at `now`: never more than the limit in total.
    fn log(&mut self, span: &Span, units: u32, now: u64) {
        let (limit, units) = (span.limit as usize, units as usize);
        let room = limit.saturating_sub(units);
        if matches!(self.units, TierUnits::Counted(_)) {
            let counted = self.window(span, now).used() as usize;
            let carried = std::iter::repeat_n(self.entry.unwrap_or(now), counted.min(room));
            self.units = TierUnits::Logged(carried.collect());
        }
        let TierUnits::Logged(times) = &mut self.units else {
            return;
        };
        let has_left = |time: &u64| span.has_left(*time, now);
        while times.len() > room || times.front().is_some_and(has_left) {
            times.pop_front();
        }
        let wanted = times.len() + units;
        if times.capacity() < wanted {
            let most = (2 * wanted).min(limit);
            times.reserve_exact(most - times.len());
        }
        match units {
            1 => times.push_back(now),
            units => times.extend(std::iter::repeat_n(now, units)),
        }
    }
}

impl TierUnits {
    fn clear(&mut self) {
        match self {
            Self::Counted(units) => *units = 0,
            Self::Logged(times) => times.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tiers::Tier;

    #[test]
    fn history_of_a_limit_that_counted_takes_no_more_room_than_one_that_slides() {
        let second = Duration::from_secs(1);
        let counts = Tiers::new([Tier::new(1_000_000, second).active(second).cooldown(second)]);
        let above = Tier::new(10, second).active(second);
        let slides = Tiers::new([Tier::new(4, second).active(2 * second), above]).unwrap();
        let mut history = History::default();
        let all = 1_000_000..=1_000_000;
        counts.unwrap().request(&mut history, 1, all).unwrap();
        let grant = slides.request(&mut history, 2, 1..=1).unwrap();
        assert_eq!(grant.split(&slides).collect::<Vec<_>>(), [(1, 1)]);
        assert_eq!(slides.remaining(&history, 2), 9);
        let most = slides.max_allocated_bytes();
        assert!(history.allocated_bytes() <= most, "{history:?}");
    }
}
