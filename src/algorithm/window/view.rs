use super::{change::Change, snapshot::WindowSnapshot, window::Window};
use crate::algorithm::time::{NEVER, live};

/// The part of a bucket's state at an instant that one request depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowView<'a> {
    now: u64,
    /// The number of units that count.
    used: u32,
    instants: Instants<'a>,
}

/// The instants of the units that count.
#[derive(Clone, Copy, Debug)]
enum Instants<'a> {
    /// All of them, in order.
    All([&'a [u64]; 2]),
    /// The ones that the request depends on.
    #[cfg(feature = "redis")]
    Sampled(Sample<'a>),
}

/// A summary of units that another store holds, as far as one request depends on it.
#[cfg(feature = "redis")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample<'a> {
    /// The number of units taken until now.
    pub(crate) until_now: u32,
    /// The instant in the receipt of a refund, or of an earlier debit.
    pub(crate) named: u64,
    /// The number of units taken until then.
    pub(crate) until_named: u32,
    /// The number of units taken before.
    pub(crate) until_before: u32,
    /// Some units by their places, counted from the oldest that counts.
    pub(crate) units: &'a [(u32, u64)],
}

impl<'a> WindowView<'a> {
    /// Creates the view of units with these instants, in ascending order from the first part to the second.
    pub(super) fn of_parts(parts: [&'a [u64]; 2], window: &Window, now: u64) -> Self {
        let is_over = |instant| window.end(instant) <= now;
        let [older, newer] = parts;
        let live = [live(older, is_over), live(newer, is_over)];
        Self {
            now,
            used: count(live[0].len() + live[1].len()),
            instants: Instants::All(live),
        }
    }
}

#[cfg(feature = "redis")]
impl<'a> WindowView<'a> {
    /// Creates the view of `used` units from a sample of them.
    pub(crate) const fn sampled(now: u64, used: u32, sample: Sample<'a>) -> Self {
        Self {
            now,
            used,
            instants: Instants::Sampled(sample),
        }
    }
}

impl WindowView<'_> {
    /// Creates the view of an unused bucket.
    pub(crate) const fn empty(now: u64) -> Self {
        Self {
            now,
            used: 0,
            instants: Instants::All([&[], &[]]),
        }
    }

    /// Returns the number of units that count.
    pub(crate) const fn used(&self) -> u32 {
        self.used
    }

    /// Returns the change for a request of `cost`, or `None` if it is denied.
    pub(crate) fn spend(&self, window: &Window, cost: u32) -> Option<Change> {
        let used = self.used.checked_add(cost)?;
        (used <= window.limit()).then(|| self.take(cost))
    }

    /// Returns the change for a debit of `cost`, or `None` if there is no room to remember it.
    pub(crate) fn debit(&self, cost: u32) -> Option<Change> {
        let used = self.used.checked_add(cost)?;
        (used <= Window::MAX_UNITS).then(|| self.take(cost))
    }

    /// Returns the change for a debit of as much of `cost` as there is room for.
    pub(crate) fn debit_saturating(&self, cost: u32) -> Change {
        self.take(cost.min(self.room()))
    }

    /// Returns the change for a debit of units that were taken at an instant in the past. If they no longer count,
    /// nothing changes.
    pub(crate) fn debit_at(&self, window: &Window, at: u64, cost: u32) -> Change {
        if window.end(at) <= self.now {
            return Change::Nothing;
        }
        Change::Take {
            after: self.until(at),
            units: cost.min(self.room()),
        }
    }

    /// Returns the number of further units that can be remembered.
    const fn room(&self) -> u32 {
        Window::MAX_UNITS.saturating_sub(self.used)
    }

    /// Returns the instant `us` microseconds ago.
    pub(crate) const fn ago(&self, us: u64) -> u64 {
        self.now.saturating_sub(us)
    }

    /// Returns the change for a refund of `cost`: the units with the largest instants.
    pub(crate) fn refund(&self, cost: u32) -> Change {
        let units = cost.min(self.used);
        Change::GiveBack {
            after: self.used - units,
            units,
        }
    }

    /// Returns the change for a refund of `cost` units that were taken at `instant`.
    pub(crate) fn refund_at(&self, instant: u64, cost: u32) -> Change {
        let end = self.until(instant);
        let start = instant
            .checked_sub(1)
            .map_or(0, |before| self.until(before));
        let units = cost.min(end - start);
        Change::GiveBack {
            after: end - units,
            units,
        }
    }

    /// Returns the change for a renewal of `cost` units that were taken at `instant`, or `None` if not all of them are there.
    pub(crate) fn renew_at(&self, instant: u64, cost: u32) -> Option<Change> {
        let Change::GiveBack { after, units } = self.refund_at(instant, cost) else {
            return None;
        };
        let until_now = self.until(self.now);
        // The units themselves are no longer before the place to which they move.
        let moved = if instant <= self.now { units } else { 0 };
        (units == cost && units > 0).then_some(Change::Renew {
            after,
            units,
            to: until_now - moved,
        })
    }

    fn take(&self, units: u32) -> Change {
        Change::Take {
            after: self.until(self.now),
            units,
        }
    }

    /// Returns the number of units taken at or before an instant.
    fn until(&self, instant: u64) -> u32 {
        let until = |instants: &[u64]| match instants.last() {
            Some(newest) if *newest > instant => {
                instants.partition_point(|taken| *taken <= instant)
            }
            _ => instants.len(),
        };
        match self.instants {
            Instants::All([older, newer]) => count(until(older) + until(newer)),
            #[cfg(feature = "redis")]
            Instants::Sampled(sample) if instant == self.now => sample.until_now,
            #[cfg(feature = "redis")]
            Instants::Sampled(sample) if instant == sample.named => sample.until_named,
            #[cfg(feature = "redis")]
            Instants::Sampled(sample) => sample.until_before,
        }
    }

    /// Returns the instant of the `n`th unit, counted from the oldest, which is 0.
    fn unit(&self, n: u32) -> Option<u64> {
        match self.instants {
            Instants::All([older, newer]) => {
                let n = n as usize;
                let newer = newer.get(n.wrapping_sub(older.len()));
                older.get(n).or(newer).copied()
            }
            #[cfg(feature = "redis")]
            Instants::Sampled(sample) => {
                let mut units = sample.units.iter();
                units
                    .find(|(place, _)| *place == n)
                    .map(|(_, instant)| *instant)
            }
        }
    }

    /// Returns the figures for a request of `cost` after `change`.
    pub(crate) fn figures(&self, window: &Window, cost: u32, change: Change) -> WindowSnapshot {
        self.figures_at(window, cost, change, self.now)
    }

    /// Returns the state after `change` without the times, which nobody asks for.
    pub(crate) fn after(&self, change: Change) -> WindowSnapshot {
        WindowSnapshot {
            at: self.now,
            used: self.used_after(change),
            change,
            next_after: 0,
            reset_after: 0,
            more_after: 0,
        }
    }

    fn used_after(&self, change: Change) -> u32 {
        match change {
            Change::Take { units, .. } => self.used.saturating_add(units),
            Change::Renew { .. } => self.used,
            change => self.used - change.units(),
        }
    }

    /// Returns the figures if the units of `change` were taken at `at`.
    pub(crate) fn figures_at(
        &self,
        window: &Window,
        cost: u32,
        change: Change,
        at: u64,
    ) -> WindowSnapshot {
        let used = self.used_after(change);
        let rest_of = |n: u32, after: u32, units: u32| match n >= after {
            true => self.unit(n + units),
            false => self.unit(n),
        };
        let unit = |n: u32| match change {
            Change::Renew { after, units, to } if n < to => rest_of(n, after, units),
            Change::Renew { units, to, .. } if n - to < units => Some(at),
            Change::Renew { after, units, .. } => rest_of(n - units, after, units),
            Change::Take { after, .. } if n < after => self.unit(n),
            Change::Take { after, units } if n - after < units => Some(at),
            Change::Take { units, .. } => self.unit(n - units),
            Change::GiveBack { after, units } => rest_of(n, after, units),
            Change::Nothing => self.unit(n),
        };
        let rest = |instant| window.end(instant).saturating_sub(self.now);
        // The time until enough units have left for a request of `cost`.
        let wait = |cost: u32| match (used.saturating_add(cost)).saturating_sub(window.limit()) {
            0 => 0,
            _ if cost > window.limit() => NEVER,
            leaving => unit(leaving - 1).map_or(0, rest),
        };
        let newest = used.checked_sub(1).and_then(unit);
        WindowSnapshot {
            at,
            used,
            change,
            next_after: wait(cost),
            reset_after: newest.map_or(0, rest),
            // There is more room once the oldest unit has left, or all units of a debt with the one after them.
            more_after: match used {
                0 => 0,
                used => unit(used.saturating_sub(window.limit())).map_or(0, rest),
            },
        }
    }
}

/// A bucket has at most 4096 units, unless another program has stored it.
fn count(units: usize) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}
