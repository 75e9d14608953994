use std::{fmt, num::NonZeroU8};

use smallvec::SmallVec;

use super::{
    grant::Grant,
    tier::{Phase, Span, end},
    tiers::Tiers,
};
use crate::algorithm::time::{NEVER, later};

/// The grants of a bucket, as far as one request depends on them. A store need not load all units.
pub(crate) trait Grants: fmt::Debug {
    /// Returns the instant of a decision that is asked for at `asked`.
    fn now(&self, asked: u64) -> u64;

    /// Returns the time at which a tier was last entered.
    fn entry(&self, tier: usize) -> Option<u64>;

    /// Returns the window of a tier.
    fn window(&self, tier: usize, span: &Span, now: u64) -> TierWindow<'_>;
}

/// The part of a bucket's state at an instant that one request depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TierView<'a> {
    asked: u64,
    /// `None` for an unused bucket.
    grants: Option<&'a dyn Grants>,
}

impl<'a> TierView<'a> {
    /// Creates the view at `asked`.
    #[inline]
    pub(super) fn of(grants: &'a dyn Grants, asked: u64) -> Self {
        Self {
            asked,
            grants: Some(grants),
        }
    }

    /// Creates the view of an unused bucket.
    #[inline]
    pub(super) const fn unused(asked: u64) -> Self {
        Self {
            asked,
            grants: None,
        }
    }

    /// Returns the windows of all tiers.
    #[inline]
    pub(super) fn windows(self, tiers: &Tiers) -> TierWindows<'a> {
        let Self { asked, grants } = self;
        let now = grants.map_or(asked, |grants| grants.now(asked));
        let mut seen = TierWindows {
            asked,
            now,
            windows: SmallVec::new(),
            current: None,
        };
        // Tiers come lowest first, so the last active tier is the highest one, which is in force.
        for (i, span) in tiers.spans().iter().enumerate() {
            let entry = grants.and_then(|grants| grants.entry(i));
            let phase = Phase::of(span, entry, now);
            if phase == Phase::Active {
                seen.current = Some(i);
            }
            // A tier above the lowest starts empty when it is entered, so the units in its window are irrelevant.
            // The lowest tier keeps its window, because its limit holds in any span.
            let grants = grants.filter(|_| i == 0 || phase != Phase::Inactive);
            let window = grants.map(|grants| grants.window(i, span, now));
            seen.windows.push(TierWindow {
                entry,
                phase,
                ..window.unwrap_or_default()
            });
        }
        seen
    }
}

/// The windows of a bucket's tiers at an instant.
#[derive(Clone, Debug)]
pub(super) struct TierWindows<'a> {
    /// The instant from which waits are counted.
    asked: u64,
    /// The instant of the decision: `asked` or, if the clock has stepped back, the time of the last grant.
    now: u64,
    windows: SmallVec<[TierWindow<'a>; 4]>,
    /// The highest tier that is active now, if any is.
    current: Option<usize>,
}

/// The window of a tier, as far as one request depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TierWindow<'a> {
    entry: Option<u64>,
    /// The number of units that count.
    used: u32,
    /// The times of the oldest units, in order.
    times: [&'a [u64]; 2],
    /// The number of units granted before this request.
    known: u32,
    /// The time that stands for the earlier units that are not in `times`.
    rest: u64,
    /// The time of the newest unit, and of all units granted now.
    newest: u64,
    phase: Phase,
}

impl<'a> TierWindow<'a> {
    /// Creates the window of units that all count from the entry of the tier.
    pub(crate) fn counted(entry: u64, used: u32) -> Self {
        Self::seen(used, &[], entry)
    }

    /// Creates the window of units with these times, oldest first. They are two slices because a ring buffer has two.
    pub(crate) fn logged(older: &'a [u64], newer: &'a [u64]) -> Self {
        let newest = newer.last().or(older.last()).copied().unwrap_or_default();
        let used = u32::try_from(older.len() + newer.len()).unwrap_or(u32::MAX);
        Self {
            times: [older, newer],
            ..Self::seen(used, &[], newest)
        }
    }

    /// Creates the window of `used` units from the oldest ones and the newest.
    pub(crate) fn seen(used: u32, oldest: &'a [u64], newest: u64) -> Self {
        Self {
            used,
            times: [oldest, &[]],
            known: used,
            rest: newest,
            newest,
            ..Self::default()
        }
    }

    /// Returns the number of units that count.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// Returns the time of the `n`th unit, counted from the oldest.
    fn unit(&self, n: usize) -> u64 {
        let [older, newer] = self.times;
        let unlisted = match n < self.known as usize {
            true => self.rest,
            false => self.newest,
        };
        let newer = newer.get(n.wrapping_sub(older.len()));
        older.get(n).or(newer).copied().unwrap_or(unlisted)
    }
}

/// The figures of a bucket with tiers at a decision. Times count from that instant.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TierSnapshot {
    pub(crate) grant: Grant,
    /// The number of units that could be granted.
    pub(crate) remaining: u32,
    /// The number of those that the tier in force would grant.
    pub(crate) free: u32,
    /// The time, in µs, until the same request would be granted (again).
    pub(crate) next_after: u64,
    /// The time until the bucket is like an unused one.
    pub(crate) reset_after: u64,
    /// The time until the tier in force has more room or ends, unless it is empty.
    pub(crate) turn_after: u64,
    /// The highest active tier, or the lowest. It counts from 1, because a non-zero number keeps types around this one
    /// small.
    in_force: NonZeroU8,
}

impl TierSnapshot {
    /// A grant without the other figures, which nobody asks for.
    pub(super) const fn granted(grant: Grant) -> Self {
        Self {
            grant,
            remaining: 0,
            free: 0,
            next_after: 0,
            reset_after: 0,
            turn_after: 0,
            in_force: NonZeroU8::MIN,
        }
    }

    /// The highest active tier, or the lowest.
    pub(crate) fn in_force(&self) -> usize {
        usize::from(self.in_force.get()) - 1
    }

    /// Returns the figures `us` later, assuming no requests in between.
    pub(crate) fn later(mut self, us: u64) -> Self {
        self.next_after = later(self.next_after, us);
        self.reset_after = later(self.reset_after, us);
        self.turn_after = later(self.turn_after, us);
        self
    }
}

impl TierWindows<'_> {
    /// Each tier's phase, when it was last entered, and how many units count.
    pub(super) fn tiers(&self) -> impl ExactSizeIterator<Item = (Phase, Option<u64>, u32)> {
        let windows = self.windows.iter();
        windows.map(|window| (window.phase, window.entry, window.used))
    }

    fn phase(&self, tiers: &Tiers, tier: usize, at: u64) -> Phase {
        let window = &self.windows[tier];
        // The stored phase decides for now, because `after` may have entered the tier. Later instants follow from the
        // entry.
        if at == self.now {
            return window.phase;
        }
        Phase::of(&tiers.spans()[tier], window.entry, at)
    }

    /// Returns the highest active tier, if any is active.
    fn current(&self, tiers: &Tiers, at: u64) -> Option<usize> {
        if at == self.now {
            return self.current;
        }
        let mut highest_first = (0..self.windows.len()).rev();
        highest_first.find(|tier| self.phase(tiers, *tier, at) == Phase::Active)
    }

    /// Returns the tiers from which a request at `at` can take units, in order.
    fn path<'b>(&'b self, tiers: &'b Tiers, at: u64) -> impl Iterator<Item = usize> + 'b {
        // Tiers below the one in force are not used, even if they have room. This is what makes a higher tier a penalty.
        let mut tier = self.current(tiers, at).unwrap_or(0);
        std::iter::from_fn(move || {
            while let Some(span) = tiers.spans().get(tier) {
                tier += 1;
                match self.phase(tiers, tier - 1, at) {
                    Phase::Cooldown if span.skippable => {}
                    // A cooldown also closes all higher tiers. Otherwise it would have no effect.
                    Phase::Cooldown => return None,
                    _ => return Some(tier - 1),
                }
            }
            None
        })
    }

    fn free(&self, tiers: &Tiers, tier: usize) -> u32 {
        let limit = tiers.spans()[tier].limit;
        // After a reload, the used units can exceed the new limit.
        limit.saturating_sub(self.windows[tier].used)
    }

    /// Returns the grant of up to `most` units, if it is at least `least`.
    pub(super) fn plan(&self, tiers: &Tiers, least: u32, most: u32) -> Option<Grant> {
        let (mut grant, mut passed) = (Grant::default(), 0_u16);
        for tier in self.path(tiers, self.now) {
            if grant.total == most {
                break;
            }
            let units = self.free(tiers, tier).min(most - grant.total);
            if passed == 0 {
                grant.first = units;
            }
            // A full tier that is passed on the way up is also entered, but only if a tier above it grants something.
            passed |= 1 << tier;
            if units > 0 {
                grant.tiers = passed;
                grant.total += units;
            }
        }
        (grant.total >= least).then_some(grant)
    }

    /// Takes the units of `grant`.
    pub(super) fn take(&mut self, tiers: &Tiers, grant: Grant) {
        for (i, units) in grant.parts(tiers) {
            let window = &mut self.windows[i];
            if window.phase == Phase::Inactive {
                window.entry = Some(self.now);
                window.phase = Phase::Active;
            }
            // A counted tier has no times for its units. They all leave at its end, as if they were granted on entry.
            if let (false, Some(entry)) = (tiers.spans()[i].slides, window.entry) {
                (window.known, window.rest) = (u32::MAX, entry);
            }
            if units > 0 {
                window.used = window.used.saturating_add(units);
                window.newest = self.now;
            }
        }
        self.current = self.current.max(grant.tier());
    }

    /// Returns the number of units that could be granted.
    pub(super) fn remaining(&self, tiers: &Tiers) -> u32 {
        let path = self.path(tiers, self.now);
        path.map(|tier| self.free(tiers, tier))
            .fold(0, u32::saturating_add)
    }

    /// Returns the time until `least` units would be granted if there were no other requests.
    ///
    /// Between two changes of phase, the path stays the same, and only its first tier has units in its window. Enough
    /// of these units must leave to make room for the units that the other tiers cannot grant.
    pub(super) fn wait(&self, tiers: &Tiers, least: u32) -> u64 {
        // Phases change at most twice per tier, so the loop ends after 33 steps at most.
        let mut from = self.now;
        loop {
            let room = self.first_room(tiers, least, from);
            if room == Some(self.now) {
                return 0;
            }
            let next = self.next_change(tiers, from);
            // Room that appears only after the next change of phase does not count, because another tier may be in
            // force by then.
            if let Some(at) = room.filter(|at| *at < next) {
                return at - self.asked;
            }
            if next == NEVER {
                return NEVER;
            }
            from = next;
        }
    }

    /// Returns the next time after `at` at which any tier changes its phase.
    fn next_change(&self, tiers: &Tiers, at: u64) -> u64 {
        let mut next = NEVER;
        for (span, window) in tiers.spans().iter().zip(&self.windows) {
            let Some(entry) = window.entry else { continue };
            let cold = entry.saturating_add(span.active);
            for last in [cold, cold.saturating_add(span.cooldown)] {
                // Intervals include their end, so the new phase starts a microsecond later.
                let change = last.saturating_add(1);
                if change > at {
                    next = next.min(change);
                }
            }
        }
        next
    }

    /// Returns the first time from `from` on at which there is room for `least` units, if no phase changes.
    fn first_room(&self, tiers: &Tiers, least: u32, from: u64) -> Option<u64> {
        let mut path = self.path(tiers, from);
        let first = path.next()?;
        let above = path.map(|tier| tiers.spans()[tier].limit);
        // The tiers above the first are inactive. They are empty when they are entered, and grant their whole limit.
        let needed = least.saturating_sub(above.fold(0, u32::saturating_add));
        let (span, window) = (&tiers.spans()[first], &self.windows[first]);
        if needed > span.limit {
            return None;
        }
        let begins_empty = first > 0 && self.phase(tiers, first, from) == Phase::Inactive;
        // The oldest units leave first, so the wait ends with the last of the units that must leave.
        let leaving =
            (u64::from(needed) + u64::from(window.used)).saturating_sub(span.limit.into());
        if needed == 0 || begins_empty || leaving == 0 {
            return Some(from);
        }
        let last_to_leave = window.unit(usize::try_from(leaving - 1).unwrap_or(usize::MAX));
        Some(from.max(end(last_to_leave, span.window)))
    }

    /// Returns the time until the bucket is like an unused one.
    fn reset(&self, tiers: &Tiers) -> u64 {
        let entered = tiers.spans().iter().zip(&self.windows);
        let ends = entered.map(|(span, window)| span.ends(window.entry));
        let (span, lowest) = (&tiers.spans()[0], &self.windows[0]);
        // The window of the lowest tier can outlast the tier itself, as long as its newest unit is inside.
        let outlives = match lowest.used {
            0 => 0,
            _ => end(lowest.newest, span.window),
        };
        self.until(ends.fold(outlives, u64::max))
    }

    fn until(&self, time: u64) -> u64 {
        match time {
            NEVER => NEVER,
            time if time <= self.now => 0,
            time => time - self.asked,
        }
    }

    /// The figures for a request of at least `least` units that has been granted `grant`.
    pub(super) fn figures(&self, tiers: &Tiers, least: u32, grant: Grant) -> TierSnapshot {
        let in_force = self.current.unwrap_or(0);
        let (span, window) = (&tiers.spans()[in_force], &self.windows[in_force]);
        let turn = match window.used {
            0 => self.now,
            _ => {
                let over = window.entry.map_or(NEVER, |entry| end(entry, span.active));
                over.min(end(window.unit(0), span.window))
            }
        };
        let remaining = self.remaining(tiers);
        TierSnapshot {
            grant,
            remaining,
            free: self.free(tiers, in_force),
            // A request that could be granted now has no wait.
            next_after: match remaining >= least {
                true => 0,
                false => self.wait(tiers, least),
            },
            reset_after: self.reset(tiers),
            turn_after: self.until(turn),
            in_force: u8::try_from(in_force + 1)
                .ok()
                .and_then(NonZeroU8::new)
                .unwrap_or(NonZeroU8::MAX),
        }
    }
}
