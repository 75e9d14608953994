use smallvec::SmallVec;

use super::{Span, Tiers, history::Phase};

/// A time that does not come, and a span that does not end.
pub(crate) const NEVER: u64 = u64::MAX;

/// Units that are granted, and from which tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Grant {
    /// One bit for each tier that units are taken from, or that is entered below them.
    tiers: u16,
    /// How many come from the first of those. All others but the last are filled.
    first: u32,
    total: u32,
}

impl Grant {
    /// How many units there are.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.total
    }

    /// The highest tier that units are taken from, 0 being the lowest, or `None` if there are none.
    #[must_use]
    pub fn tier(&self) -> Option<usize> {
        self.tiers.checked_ilog2().map(|tier| tier as usize)
    }

    /// How many units come from which tier, lowest first.
    pub fn split(&self, tiers: &Tiers) -> impl Iterator<Item = (usize, u32)> {
        self.parts(tiers).filter(|(_, units)| *units > 0)
    }

    /// The same with a tier that is entered and gives nothing, since it is full.
    pub(super) fn parts<'a>(&self, tiers: &'a Tiers) -> impl Iterator<Item = (usize, u32)> + 'a {
        let Self {
            tiers: bits,
            first,
            mut total,
        } = *self;
        let spans = tiers.spans().iter().enumerate();
        let drawn = spans.filter(move |(i, _)| bits >> i & 1 == 1);
        drawn.enumerate().map(move |(nth, (i, span))| {
            let most = if nth == 0 { first } else { span.limit };
            let units = most.min(total);
            total -= units;
            (i, units)
        })
    }
}

/// What one request needs to know of a bucket at an instant.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    /// The instant from which waits are counted.
    asked: u64,
    /// That instant or, if the clock has stepped back, the last grant.
    pub(crate) now: u64,
    pub(crate) windows: SmallVec<[Window<'a>; 4]>,
}

/// What one request needs to know of a tier.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window<'a> {
    pub(crate) entry: Option<u64>,
    /// How many units count.
    pub(crate) used: u32,
    /// When the oldest of those were granted, in order.
    times: [&'a [u64]; 2],
    /// How many after those were granted at which time.
    alike: (u32, u64),
    /// When all others were, as far as it matters.
    rest: u64,
    /// When the last was.
    newest: u64,
}

impl<'a> Window<'a> {
    /// Of a tier that was entered at some time, and of which nothing counts any more.
    pub(crate) fn empty(entry: Option<u64>) -> Self {
        Self {
            entry,
            ..Self::default()
        }
    }

    /// Of units that count as if they had been granted when the tier was entered.
    pub(crate) fn counted(entry: Option<u64>, used: u32) -> Self {
        let time = entry.unwrap_or_default();
        Self {
            entry,
            used,
            times: [&[], &[]],
            alike: (used, time),
            rest: time,
            newest: time,
        }
    }

    /// Of units with these times, all of them in the window, oldest first.
    pub(crate) fn logged(entry: Option<u64>, older: &'a [u64], newer: &'a [u64]) -> Self {
        let newest = newer.last().or(older.last()).copied().unwrap_or_default();
        let used = older.len() + newer.len();
        Self {
            entry,
            used: u32::try_from(used).unwrap_or(u32::MAX),
            times: [older, newer],
            alike: (0, newest),
            rest: newest,
            newest,
        }
    }

    /// Of `used` units in the window, of which only the oldest and the newest are known.
    #[cfg(feature = "redis")]
    pub(crate) fn seen(entry: Option<u64>, used: u32, oldest: &'a [u64], newest: u64) -> Self {
        Self {
            entry,
            used,
            times: [oldest, &[]],
            // Units that are only counted are shown without times.
            alike: if oldest.is_empty() {
                (used, newest)
            } else {
                (0, newest)
            },
            rest: newest,
            newest,
        }
    }

    /// When a unit was granted, counted from the oldest.
    fn unit(&self, n: usize) -> u64 {
        let [older, newer] = self.times;
        let (counted, time) = self.alike;
        let alike = if n < counted as usize {
            time
        } else {
            self.rest
        };
        let newer = newer.get(n.wrapping_sub(older.len()));
        older.get(n).or(newer).copied().unwrap_or(alike)
    }
}

/// How a bucket with tiers stands, counted from the instant of a decision on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Figures {
    pub(crate) grant: Grant,
    /// How many units could be granted.
    pub(crate) remaining: u32,
    /// How many of those by the tier in force.
    pub(crate) free: u32,
    /// How long, in µs, until the same request would be granted (again).
    pub(crate) next_after: u64,
    /// Until it is as if the bucket had never been used.
    pub(crate) reset_after: u64,
    /// Until the tier in force has more room or ends, if it has not all its room.
    pub(crate) turn_after: u64,
    /// The highest active tier, or the lowest.
    pub(crate) in_force: u8,
}

impl Figures {
    /// The same seen `us` later, if nothing has come.
    pub(crate) fn later(mut self, us: u64) -> Self {
        for wait in [
            &mut self.next_after,
            &mut self.reset_after,
            &mut self.turn_after,
        ] {
            if *wait != NEVER {
                *wait = wait.saturating_sub(us);
            }
        }
        self
    }
}

impl<'a> View<'a> {
    pub(crate) fn new(asked: u64, now: u64, windows: impl Iterator<Item = Window<'a>>) -> Self {
        let windows = windows.collect();
        Self {
            asked,
            now,
            windows,
        }
    }

    fn phase(&self, tiers: &Tiers, tier: usize, at: u64) -> Phase {
        Phase::of(&tiers.spans()[tier], self.windows[tier].entry, at)
    }

    /// The highest active tier, if any is.
    fn current(&self, tiers: &Tiers, at: u64) -> Option<usize> {
        let mut highest_first = (0..self.windows.len()).rev();
        highest_first.find(|tier| self.phase(tiers, *tier, at) == Phase::Active)
    }

    /// The tiers that a request at some time may take units from, in this order.
    fn path<'b>(&'b self, tiers: &'b Tiers, at: u64) -> impl Iterator<Item = usize> + 'b {
        let from = self.current(tiers, at).unwrap_or(0);
        let is_cool = move |tier: &usize| self.phase(tiers, *tier, at) != Phase::Cooldown;
        (from..self.windows.len())
            .take_while(move |tier| is_cool(tier) || tiers.spans()[*tier].skippable)
            .filter(is_cool)
    }

    fn free(&self, tiers: &Tiers, tier: usize) -> u32 {
        let limit = tiers.spans()[tier].limit;
        limit.saturating_sub(self.windows[tier].used)
    }

    /// What is granted of `most` units, if it is at least `least`.
    pub(crate) fn plan(&self, tiers: &Tiers, least: u32, most: u32) -> Option<Grant> {
        let (mut grant, mut passed) = (Grant::default(), 0_u16);
        for tier in self.path(tiers, self.now) {
            if grant.total == most {
                break;
            }
            let units = self.free(tiers, tier).min(most - grant.total);
            if passed == 0 {
                grant.first = units;
            }
            passed |= 1 << tier;
            if units > 0 {
                grant.tiers = passed;
                grant.total += units;
            }
        }
        (grant.total >= least).then_some(grant)
    }

    /// How it is once `grant` is taken.
    pub(crate) fn after(&self, tiers: &Tiers, grant: Grant) -> Self {
        let mut after = self.clone();
        for (i, units) in grant.parts(tiers) {
            let enters = self.phase(tiers, i, self.now) == Phase::Inactive;
            let window = &mut after.windows[i];
            if enters && i > 0 {
                *window = Window::default();
            }
            if enters {
                window.entry = Some(self.now);
            }
            if tiers.spans()[i].slides {
                window.rest = self.now;
            } else {
                window.rest = window.entry.unwrap_or(self.now);
                window.alike = (0, window.rest);
            }
            window.used = window.used.saturating_add(units);
            window.newest = if units > 0 { self.now } else { window.newest };
        }
        after
    }

    /// How many units could be granted.
    pub(crate) fn remaining(&self, tiers: &Tiers) -> u32 {
        let path = self.path(tiers, self.now);
        path.map(|tier| self.free(tiers, tier))
            .fold(0, u32::saturating_add)
    }

    /// How long until `least` units would be granted if nothing else came.
    ///
    /// Between two changes of phase the path stays as it is, and only its first tier has anything in its window: so many
    /// of its units have to leave that there is room for what the others cannot take.
    pub(crate) fn wait(&self, tiers: &Tiers, least: u32) -> u64 {
        let mut from = self.now;
        loop {
            let next = self.next_change(tiers, from);
            if let Some(at) = self.first_room(tiers, least, from).filter(|at| *at < next) {
                return if at == self.now { 0 } else { at - self.asked };
            }
            if next == NEVER {
                return NEVER;
            }
            from = next;
        }
    }

    /// When any tier next comes into another phase, after `at`.
    fn next_change(&self, tiers: &Tiers, at: u64) -> u64 {
        let entered = tiers.spans().iter().zip(&self.windows);
        let ends = entered.filter_map(|(span, window)| {
            let entry = window.entry?;
            let cold = entry.saturating_add(span.active);
            Some([cold, cold.saturating_add(span.cooldown)])
        });
        let changes = ends.flatten().map(|end| end.saturating_add(1));
        changes.filter(|change| *change > at).min().unwrap_or(NEVER)
    }

    /// When there is room for `least` units, from `from` on and as long as no phase changes.
    fn first_room(&self, tiers: &Tiers, least: u32, from: u64) -> Option<u64> {
        let mut path = self.path(tiers, from);
        let first = path.next()?;
        let above = path.map(|tier| tiers.spans()[tier].limit);
        let needed = least.saturating_sub(above.fold(0, u32::saturating_add));
        let (span, window) = (&tiers.spans()[first], &self.windows[first]);
        if needed > span.limit {
            return None;
        }
        let begins_empty = first > 0 && self.phase(tiers, first, from) == Phase::Inactive;
        let leaving =
            (u64::from(needed) + u64::from(window.used)).saturating_sub(span.limit.into());
        if needed == 0 || begins_empty || leaving == 0 {
            return Some(from);
        }
        let last_to_leave = window.unit(usize::try_from(leaving - 1).unwrap_or(usize::MAX));
        Some(from.max(end(last_to_leave, span.window)))
    }

    /// How long until it is as if nothing had ever been granted.
    pub(crate) fn reset(&self, tiers: &Tiers) -> u64 {
        let entered = tiers.spans().iter().zip(&self.windows);
        let ends = entered.filter_map(|(span, window)| window.end(span));
        self.until(ends.max().unwrap_or(0).max(self.window_end(tiers)))
    }

    /// From when on nothing that will be decided depends on what has been granted. A lowest tier that never ends is
    /// as good as one that is not entered: its window alone decides.
    pub(crate) fn lapses_at(&self, tiers: &Tiers) -> u64 {
        let entered = tiers.spans().iter().zip(&self.windows).enumerate();
        let ends = entered
            .filter(|(i, (span, _))| *i > 0 || span.active != NEVER)
            .filter_map(|(_, (span, window))| window.end(span));
        let last = ends.max().unwrap_or(0).max(self.window_end(tiers));
        last.max(self.now)
    }

    /// When the last unit leaves the lowest tier's window, which outlives the tier.
    fn window_end(&self, tiers: &Tiers) -> u64 {
        let (span, window) = (&tiers.spans()[0], &self.windows[0]);
        if window.used > 0 {
            end(window.newest, span.window)
        } else {
            0
        }
    }

    fn until(&self, time: u64) -> u64 {
        match time {
            NEVER => NEVER,
            time if time <= self.now => 0,
            time => time - self.asked,
        }
    }

    /// The figures for a request of at least `least` units that has been granted `grant`.
    pub(crate) fn figures(&self, tiers: &Tiers, least: u32, grant: Grant) -> Figures {
        let current = self.current(tiers, self.now);
        let in_force = current.unwrap_or(0);
        let (span, window) = (&tiers.spans()[in_force], &self.windows[in_force]);
        let turn = match window.used {
            0 => self.now,
            _ => {
                let over = window.entry.map_or(NEVER, |entry| end(entry, span.active));
                over.min(end(window.unit(0), span.window))
            }
        };
        Figures {
            grant,
            remaining: self.remaining(tiers),
            free: self.free(tiers, in_force),
            next_after: self.wait(tiers, least),
            reset_after: self.reset(tiers),
            turn_after: self.until(turn),
            in_force: u8::try_from(in_force).unwrap_or(u8::MAX),
        }
    }
}

impl Window<'_> {
    /// When the tier can be entered anew.
    fn end(&self, span: &Span) -> Option<u64> {
        let cold = self.entry?.saturating_add(span.active);
        Some(end(cold, span.cooldown))
    }
}

/// The first instant after a closed interval.
fn end(start: u64, length: u64) -> u64 {
    start.saturating_add(length).saturating_add(1)
}
