use std::{collections::VecDeque, iter, ops::Range};

use super::Window;
use crate::algorithm::{
    Arithmetic, Ask, AskError, Charge, Figures, Verb, Wait,
    numbers::{AsNumbers, Numbers},
};

impl Arithmetic for Window {
    type State = Units;

    fn accepts(&self, ask: &Ask) -> Result<(), AskError> {
        ask.accepted_up_to(self.limit)
    }

    fn judge(&self, ask: &Ask, units: &Units, now: u64) -> bool {
        let used = count(units.live(self.window, now).len());
        match ask.verb {
            Verb::Spend => used.saturating_add(ask.cost) <= self.limit,
            Verb::Debit => ask.saturates || used.saturating_add(ask.cost) <= Self::MAX_UNITS,
            Verb::Refund => !self.refunded(ask, units, now).is_empty(),
            Verb::Renew | Verb::Peek => false,
        }
    }

    fn apply(&self, ask: &Ask, units: &mut Units, now: u64) -> Charge {
        let used = count(units.live(self.window, now).len());
        let refunded = self.refunded(ask, units, now);
        let changed = match ask.verb {
            Verb::Spend => ask.cost,
            Verb::Debit => ask.cost.min(Self::MAX_UNITS.saturating_sub(used)),
            Verb::Refund => count(refunded.len()),
            Verb::Renew | Verb::Peek => 0,
        };
        if ask.verb == Verb::Refund {
            units.remove(refunded);
        }
        let expired = units.live(self.window, now).start;
        units.remove(0..expired);
        if ask.verb != Verb::Refund {
            units.insert(now, changed, self.limit);
        }
        Charge {
            at: now,
            frac: 0,
            units: changed,
        }
    }

    fn figures(&self, ask: &Ask, units: &Units, now: u64) -> Figures {
        self.figures_of(ask, &self.shown(ask, units, now), now)
    }

    fn full_at(&self, units: &Units) -> u64 {
        units.newest().map_or(0, |newest| self.end(newest))
    }
}

/// The part of a bucket on which its figures depend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowSummary {
    /// The number of units that count.
    pub(crate) used: u32,
    /// The instant of the last unit that has to expire before the cost fits.
    pub(crate) leaving: u64,
    /// The instant of the unit whose end makes more room: the oldest one or, if the bucket is in debt, the first one that leaves
    /// it.
    pub(crate) first: u64,
    /// The instant of the newest unit.
    pub(crate) newest: u64,
}

impl Window {
    fn shown(&self, ask: &Ask, units: &Units, now: u64) -> WindowSummary {
        let live = units.live(self.window, now);
        let used = count(live.len());
        let unit = |nth: u32| units.get(live.start + nth as usize).unwrap_or_default();
        WindowSummary {
            used,
            leaving: unit(self.leaving(used, ask.cost).saturating_sub(1)),
            first: unit(used.saturating_sub(self.limit)),
            newest: units.newest().unwrap_or_default(),
        }
    }

    pub(crate) fn figures_of(&self, ask: &Ask, shown: &WindowSummary, now: u64) -> Figures {
        let until = |taken: u64| Wait::until(self.end(taken), now);
        let of_used = |wait: Wait| if shown.used > 0 { wait } else { Wait::ZERO };
        Figures {
            limit: self.limit,
            remaining: self.limit.saturating_sub(shown.used),
            next_after: match self.leaving(shown.used, ask.cost) {
                0 => Wait::ZERO,
                _ if ask.cost > self.limit => Wait::UNKNOWN,
                _ => until(shown.leaving),
            },
            more_after: of_used(until(shown.first)),
            reset_after: of_used(until(shown.newest)),
            delay: Wait::ZERO,
        }
    }

    /// Returns the number of units that have to expire before the cost fits.
    fn leaving(&self, used: u32, cost: u32) -> u32 {
        used.saturating_add(cost).saturating_sub(self.limit)
    }

    /// Returns the indexes of the units that a refund removes: those of the charge's instant that still count, or the latest ones.
    fn refunded(&self, ask: &Ask, units: &Units, now: u64) -> Range<usize> {
        let live = units.live(self.window, now);
        let of = match ask.charge {
            Some(charge) => units.at(charge.at),
            None => live.clone(),
        };
        let start = of.start.max(live.start);
        let end = of.end.max(live.start);
        end.saturating_sub(ask.cost as usize).max(start)..end
    }
}

/// A bucket has at most 4096 units, unless another program has stored it.
fn count(units: usize) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// The instants at which the units of a bucket were taken, in microseconds since the Unix epoch, in ascending order. The default is
/// a full bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Units(VecDeque<u64>);

impl AsNumbers for Units {
    const LETTER: u8 = b'w';

    fn write(&self, number: &mut impl FnMut(u64)) {
        self.write_instants(number);
    }

    fn read(numbers: &mut Numbers<'_>) -> Option<Self> {
        let mut units = Self::default();
        while !numbers.is_empty() {
            units.read_instant(numbers)?;
        }
        Some(units)
    }
}

impl Units {
    /// Passes on the instants, each as the time since the one before it.
    pub(in crate::algorithm) fn write_instants(&self, number: &mut impl FnMut(u64)) {
        let mut before = 0;
        for instant in &self.0 {
            number(instant - before);
            before = *instant;
        }
    }

    /// Reads one more instant.
    pub(in crate::algorithm) fn read_instant(&mut self, numbers: &mut Numbers<'_>) -> Option<()> {
        let before = self.newest().unwrap_or(0);
        self.0.push_back(numbers.instant_after(before)?);
        Some(())
    }

    /// Returns the number of units.
    pub(in crate::algorithm) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the memory that the units take beyond their own size, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }

    /// Returns the indexes of the units that count, each for the length of a window.
    pub(in crate::algorithm) fn live(&self, window: u64, now: u64) -> Range<usize> {
        let expired = self
            .0
            .partition_point(|taken| taken.saturating_add(window) <= now);
        expired..self.0.len()
    }

    pub(in crate::algorithm) fn get(&self, index: usize) -> Option<u64> {
        self.0.get(index).copied()
    }

    pub(in crate::algorithm) fn newest(&self) -> Option<u64> {
        self.0.back().copied()
    }

    /// Returns the indexes of the units that were taken at an instant.
    fn at(&self, instant: u64) -> Range<usize> {
        self.0.partition_point(|taken| *taken < instant)..self.until(instant)
    }

    /// Returns the number of units that were taken at or before an instant.
    fn until(&self, instant: u64) -> usize {
        self.0.partition_point(|taken| *taken <= instant)
    }

    pub(in crate::algorithm) fn remove(&mut self, indexes: Range<usize>) {
        self.0.drain(indexes);
    }

    /// Adds units after those of the same instant, and before later ones. There are later ones if the clock has stepped back.
    pub(in crate::algorithm) fn insert(&mut self, instant: u64, units: u32, usual: u32) {
        let index = self.until(instant);
        let units = units as usize;
        let wanted = self.0.len() + units;
        if wanted > self.0.capacity() {
            let room = (2 * wanted).min(wanted.max(usual as usize));
            self.0.reserve_exact(room - self.0.len());
        }
        let later = self.0.len() - index;
        self.0.extend(iter::repeat_n(instant, units));
        if later > 0 {
            self.0.make_contiguous()[index..].rotate_left(later);
        }
    }
}
