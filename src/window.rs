//! Sliding windows: at most a number of units within any span of a given length.
//!
//! A bucket is the list of the instants at which its [`Units`] were taken. A unit that was taken at `t` counts as long as
//! `now < t + window`, so the next one passes at exactly `t + window`:
//!
//! ```text
//! allowed  ⇔  used + cost  ≤  limit                       then the bucket has `cost` units more, taken now
//! ```
//!
//! Each unit is remembered, at 8 bytes, so there are up to [`Window::MAX_UNITS`] of them. A [debit] adds units beyond the
//! limit, up to that number.
//!
//! **The bound.** Any span `[t, t + window)` admits at most the limit, wherever it starts. That is what a window is for:
//! "5 logins in 15 minutes" never admits a sixth.
//!
//! **Clocks that step back.** A unit that was taken later than now counts as well. A charge forgets the units that
//! no longer count.
//!
//! There is no clock, no I/O and no floating point in this file.
//!
//! [debit]: crate::transaction::Mode::Debit

use std::{collections::VecDeque, time::Duration};

use thiserror::Error;

use crate::{gcra::MAX_TICKS_US, tiers::NEVER};

/// The validated parameters of a sliding window. [`Limit::window`](crate::Limit::window) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    limit: u32,
    us: u64,
}

/// The instants at which the units of a [`Window`] were taken, which are the whole stored state of a bucket. The default
/// is an unused bucket.
///
/// It takes 8 bytes for each unit. [`Limit::window`](crate::Limit::window) has an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Microseconds since the Unix epoch, in ascending order.
    instants: VecDeque<u64>,
}

impl Window {
    /// The most units that a bucket remembers, and so the highest limit.
    pub const MAX_UNITS: u32 = 4096;

    /// At most `limit` units within any span of the length `window`.
    ///
    /// # Errors
    ///
    /// If the limit is 0 or above [`MAX_UNITS`](Self::MAX_UNITS), or if the window is 0, is not a whole number of
    /// microseconds, or is above 2⁵¹ of them (71 years).
    pub const fn new(limit: u32, window: Duration) -> Result<Self, WindowError> {
        if limit == 0 {
            return Err(WindowError::ZeroLimit);
        }
        if limit > Self::MAX_UNITS {
            return Err(WindowError::TooManyToRemember(limit));
        }
        if window.is_zero() {
            return Err(WindowError::ZeroWindow);
        }
        if !window.subsec_nanos().is_multiple_of(1000) {
            return Err(WindowError::TooFine);
        }
        if window.as_micros() > MAX_TICKS_US as u128 {
            return Err(WindowError::TooLong);
        }
        let us = window.as_secs() * 1_000_000 + window.subsec_micros() as u64;
        Ok(Self { limit, us })
    }

    /// Returns the most units that can be taken within any window, without debits.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the time for which a unit counts.
    #[must_use]
    pub const fn window(&self) -> Duration {
        Duration::from_micros(self.us)
    }

    /// Returns the same window with a part of the limit, at least 1.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn share(self, part: u32, of: u32) -> Self {
        let limit = (u64::from(self.limit) * u64::from(part)).div_ceil(of.into());
        let limit = u32::try_from(limit).unwrap_or(self.limit).max(1);
        Self { limit, ..self }
    }

    /// Takes `cost` units at `now` (µs since the epoch) if they fit, and says whether they did.
    #[doc(hidden)]
    #[must_use]
    pub fn spend(&self, units: &mut Units, now: u64, cost: u32) -> bool {
        let change = units.view(self, now).spend(self, cost);
        if let Some(change) = change {
            units.change(self, now, change);
        }
        change.is_some()
    }

    /// Returns the number of units left at `now`.
    #[doc(hidden)]
    #[must_use]
    pub fn remaining(&self, units: &Units, now: u64) -> u32 {
        self.limit.saturating_sub(units.view(self, now).used)
    }

    /// Returns the time from `now` (µs) until a request of `cost`, which is at most the limit, would pass; zero if it
    /// would pass now.
    #[doc(hidden)]
    #[must_use]
    pub fn wait(&self, units: &Units, now: u64, cost: u32) -> u64 {
        let figures = units.view(self, now).figures(self, cost, Change::Nothing);
        figures.next_after
    }

    /// Returns the instant at which a unit taken at `instant` stops counting.
    const fn end(&self, instant: u64) -> u64 {
        instant.saturating_add(self.us)
    }
}

impl Units {
    /// Returns the units that count at `now`.
    pub(crate) fn view(&self, window: &Window, now: u64) -> View<'_> {
        let (older, newer) = self.instants.as_slices();
        let live = [live(older, window, now), live(newer, window, now)];
        let used = live[0].len() + live[1].len();
        View {
            now,
            used: count(used),
            instants: Instants::All(live),
        }
    }

    /// Changes the units that count at `now` (µs since the epoch), and forgets the others.
    pub(crate) fn change(&mut self, window: &Window, now: u64, change: Change) {
        self.change_at(window, now, change, now);
    }

    /// Changes units that were taken at `at`, if any are taken.
    pub(crate) fn change_at(&mut self, window: &Window, now: u64, change: Change, at: u64) {
        self.forget_outdated(window, now);
        match change {
            Change::Nothing => {}
            Change::Take { after, units } => self.insert(after, at, units, window),
            Change::GiveBack { after, units } => {
                let after = after as usize;
                self.instants.drain(after..after + units as usize);
            }
        }
    }

    fn forget_outdated(&mut self, window: &Window, now: u64) {
        let is_over = |instant: &u64| window.end(*instant) <= now;
        while self.instants.front().is_some_and(is_over) {
            self.instants.pop_front();
        }
    }

    fn insert(&mut self, after: u32, at: u64, units: u32, window: &Window) {
        let (len, units) = (self.instants.len(), units as usize);
        let wanted = len + units;
        if self.instants.capacity() < wanted {
            let most = (window.limit as usize).max(wanted);
            let room = (2 * wanted).min(most);
            self.instants.reserve_exact(room - len);
        }
        match units {
            1 => self.instants.push_back(at),
            units => self.instants.extend(std::iter::repeat_n(at, units)),
        }
        // Units that are later, perhaps from before the clock stepped back, come last.
        let later = len - after as usize;
        if later > 0 {
            self.instants.make_contiguous()[after as usize..].rotate_left(later);
        }
    }

    /// Returns the instant (µs since the epoch) from which none of them counts, if none is added.
    pub(crate) fn lapses_at(&self, window: &Window) -> u64 {
        self.instants.back().map_or(0, |newest| window.end(*newest))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.instants.is_empty()
    }

    /// Returns the memory that the units take beyond their own size, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.instants.capacity() * size_of::<u64>()
    }

    /// Returns the memory for a number of units, in bytes.
    pub(crate) const fn heap_bytes_of(units: u32) -> usize {
        units as usize * size_of::<u64>()
    }

    /// Returns the instants, in microseconds since the Unix epoch, in ascending order.
    #[must_use]
    pub fn instants(&self) -> impl ExactSizeIterator<Item = u64> + DoubleEndedIterator {
        self.instants.iter().copied()
    }

    /// Units with these instants, in ascending order.
    pub(crate) fn from_instants(instants: VecDeque<u64>) -> Self {
        Self { instants }
    }
}

/// Returns the units that count at `now`, among instants in ascending order.
fn live<'a>(instants: &'a [u64], window: &Window, now: u64) -> &'a [u64] {
    let is_over = |instant: u64| window.end(instant) <= now;
    match instants {
        [oldest, ..] if is_over(*oldest) => {
            // Usually, few units have expired since the last request, so the search begins at the oldest.
            let mut reach = 1;
            while instants.get(reach).is_some_and(|next| is_over(*next)) {
                reach *= 2;
            }
            let near = &instants[..reach.min(instants.len())];
            &instants[near.partition_point(|instant| is_over(*instant))..]
        }
        instants => instants,
    }
}

/// A bucket has at most 4096 units, unless another program has stored it.
fn count(units: usize) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// The part of a bucket's state at an instant that one request depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
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
    /// The instant in the receipt of a refund.
    pub(crate) named: u64,
    /// The number of units taken until then, and before.
    pub(crate) until_named: u32,
    pub(crate) until_before: u32,
    /// Some units by their places, counted from the oldest that counts.
    pub(crate) units: &'a [(u32, u64)],
}

/// A change to a bucket's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    #[default]
    Nothing,
    /// Takes `units` after the first `after` ones: now, or at the earlier instant of a debit.
    Take { after: u32, units: u32 },
    /// Gives back `units` that come after the first `after` ones.
    GiveBack { after: u32, units: u32 },
}

impl Change {
    pub(crate) fn units(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Take { units, .. } | Self::GiveBack { units, .. } => units,
        }
    }
}

#[cfg(feature = "redis")]
impl<'a> View<'a> {
    /// Creates the view of units with these instants, in ascending order.
    pub(crate) fn of(instants: &'a [u64], window: &Window, now: u64) -> Self {
        let live = live(instants, window, now);
        Self {
            now,
            used: count(live.len()),
            instants: Instants::All([live, &[]]),
        }
    }

    /// Creates the view of `used` units from a sample of them.
    pub(crate) const fn sampled(now: u64, used: u32, sample: Sample<'a>) -> Self {
        Self {
            now,
            used,
            instants: Instants::Sampled(sample),
        }
    }

    /// Returns the number of units that count.
    pub(crate) const fn used(&self) -> u32 {
        self.used
    }
}

impl View<'_> {
    /// Creates the view of an unused bucket.
    pub(crate) const fn empty(now: u64) -> Self {
        Self {
            now,
            used: 0,
            instants: Instants::All([&[], &[]]),
        }
    }

    /// Returns the change for a request of `cost`, or `None` if it is denied.
    pub(crate) fn spend(&self, window: &Window, cost: u32) -> Option<Change> {
        let used = self.used.checked_add(cost)?;
        (used <= window.limit).then(|| self.take(cost))
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

    /// Returns the figures if the units of `change` were taken at `at`.
    pub(crate) fn figures_at(
        &self,
        window: &Window,
        cost: u32,
        change: Change,
        at: u64,
    ) -> WindowSnapshot {
        let used = match change {
            Change::Take { units, .. } => self.used.saturating_add(units),
            change => self.used - change.units(),
        };
        let unit = |n: u32| match change {
            Change::Take { after, .. } if n < after => self.unit(n),
            Change::Take { after, units } if n - after < units => Some(at),
            Change::Take { units, .. } => self.unit(n - units),
            Change::GiveBack { after, units } if n >= after => self.unit(n + units),
            _ => self.unit(n),
        };
        let rest = |instant| window.end(instant).saturating_sub(self.now);
        // The time until enough units have left for a request of `cost`.
        let wait = |cost: u32| match (used.saturating_add(cost)).saturating_sub(window.limit) {
            0 => 0,
            _ if cost > window.limit => NEVER,
            leaving => unit(leaving - 1).map_or(0, rest),
        };
        let newest = used.checked_sub(1).and_then(unit);
        WindowSnapshot {
            at,
            used,
            change,
            next_after: wait(cost),
            reset_after: newest.map_or(0, rest),
            more_after: match used {
                0 => 0,
                used => wait(window.limit.saturating_sub(used) + 1),
            },
        }
    }
}

/// The figures of a bucket with a window at a decision. Times count from that instant.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowSnapshot {
    /// The instant of the units that are charged, or the time of the decision, by the clock of the store, in µs since
    /// the epoch.
    pub(crate) at: u64,
    /// The number of units that count.
    pub(crate) used: u32,
    /// The change that the decision makes.
    pub(crate) change: Change,
    /// The time, in µs, until the same request would be granted (again).
    pub(crate) next_after: u64,
    /// The time until no unit counts.
    pub(crate) reset_after: u64,
    /// The time until there is more room, unless the window is empty.
    pub(crate) more_after: u64,
}

impl WindowSnapshot {
    /// Returns the figures `us` later, if there were no requests and no relevant unit has left.
    pub(crate) fn later(mut self, us: u64) -> Self {
        for wait in [
            &mut self.next_after,
            &mut self.reset_after,
            &mut self.more_after,
        ] {
            if *wait != NEVER {
                *wait = wait.saturating_sub(us);
            }
        }
        self
    }
}

/// The error for an invalid window. Returned by [`Window::new`]; [`Limit::window`](crate::Limit::window) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WindowError {
    /// The limit is zero.
    #[error("limit is 0, so nothing would ever pass: use at least 1")]
    ZeroLimit,
    /// Too many units would have to be remembered.
    #[error(
        "limit {0} is above 4096 in a window, where each unit has to be remembered: lower it, or use a quota, or burst, \
         count and period"
    )]
    TooManyToRemember(u32),
    /// The window is zero.
    #[error("window is 0: use the time in which at most `limit` pass, as `1s` or `15m`")]
    ZeroWindow,
    /// The window has a fraction of a microsecond.
    #[error("window is not a whole number of microseconds: round it to one")]
    TooFine,
    /// The window is above 2⁵¹ µs.
    #[error("window is more than 71 years (2^51 us): shorten it")]
    TooLong,
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_767_225_600_000_000;

    fn window(limit: u32, us: u64) -> Window {
        Window::new(limit, Duration::from_micros(us)).unwrap()
    }

    fn taken(units: &Units) -> Vec<u64> {
        units.instants().map(|instant| instant - T).collect()
    }

    #[test]
    fn next_unit_passes_exactly_a_window_after_the_oldest() {
        let (five, mut units) = (window(5, 100), Units::default());
        for later in [0, 1, 1, 7, 99] {
            assert!(five.spend(&mut units, T + later, 1));
        }
        assert!(!five.spend(&mut units, T + 99, 1));
        let figures = units.view(&five, T + 99).figures(&five, 3, Change::Nothing);
        assert_eq!((figures.used, figures.next_after), (5, 2));
        assert_eq!((figures.more_after, figures.reset_after), (1, 100));
        assert!(five.spend(&mut units, T + 100, 1));
        assert!(!five.spend(&mut units, T + 100, 1));
        assert!(five.spend(&mut units, T + 101, 2));
        assert_eq!(taken(&units), [7, 99, 100, 101, 101]);
    }

    #[test]
    fn denial_changes_nothing_and_cost_0_is_denied_only_in_debt() {
        let (two, mut units) = (window(2, 100), Units::default());
        assert!(two.spend(&mut units, T, 2));
        let before = units.clone();
        assert!(!two.spend(&mut units, T + 1, 1) && two.spend(&mut units, T + 1, 0));
        assert_eq!(units, before);
        let debit = units.view(&two, T + 1).debit(1).unwrap();
        units.change(&two, T + 1, debit);
        assert!(units.view(&two, T + 1).spend(&two, 0).is_none());
        let figures = units.view(&two, T + 1).figures(&two, 0, Change::Nothing);
        assert_eq!((figures.next_after, figures.more_after), (99, 99));
        assert!(units.view(&two, T + 100).spend(&two, 0).is_some());
    }

    #[test]
    fn debit_has_room_for_4096_units_in_all() {
        let (two, mut units) = (window(2, 100), Units::default());
        assert!(two.spend(&mut units, T, 1));
        let view = units.view(&two, T + 1);
        assert_eq!(view.debit(4096), None);
        let rest = Change::Take {
            after: 1,
            units: 4095,
        };
        assert_eq!(view.debit(4095), Some(rest));
        assert_eq!(view.debit_saturating(u32::MAX), rest);
        let empty = units.view(&two, T + 100);
        assert_eq!(empty.debit(4096).map(Change::units), Some(4096));
        assert_eq!(empty.debit(4097), None);
        let figures = view.figures(&two, 4095, rest);
        assert_eq!((figures.used, figures.next_after), (4096, NEVER));
        assert_eq!(
            figures.more_after, 100,
            "all but one of the debit leave together"
        );
    }

    #[test]
    fn refund_removes_the_units_with_the_largest_instants() {
        let (five, mut units) = (window(5, 100), Units::default());
        for later in [0, 5, 9] {
            assert!(five.spend(&mut units, T + later, 1));
        }
        let view = units.view(&five, T + 10);
        let figures = view.figures(&five, 2, view.refund(2));
        assert_eq!((figures.used, figures.reset_after), (1, 90));
        let change = view.refund(2);
        units.change(&five, T + 10, change);
        assert_eq!(taken(&units), [0]);
        assert_eq!(units.view(&five, T + 10).refund(7).units(), 1);
        assert_eq!(units.view(&five, T + 100).refund(7).units(), 0);
    }

    #[test]
    fn receipt_removes_units_of_its_instant_only() {
        let (nine, mut units) = (window(9, 100), Units::default());
        for (later, cost) in [(0, 2), (5, 3), (9, 1)] {
            assert!(nine.spend(&mut units, T + later, cost));
        }
        let change = units.view(&nine, T + 10).refund_at(T + 5, 2);
        assert_eq!(change.units(), 2);
        let figures = units.view(&nine, T + 10).figures(&nine, 7, change);
        assert_eq!((figures.used, figures.next_after), (4, 90));
        units.change(&nine, T + 10, change);
        assert_eq!(taken(&units), [0, 0, 5, 9]);
        for (instant, now, given) in [(5, 10, 1), (4, 10, 0), (0, 99, 2), (0, 100, 0), (5, 104, 1)]
        {
            let change = units.view(&nine, T + now).refund_at(T + instant, 7);
            assert_eq!(change.units(), given, "{instant} at {now}");
        }
    }

    #[test]
    fn clock_that_steps_back_keeps_later_units_and_their_order() {
        let (three, mut units) = (window(3, 100), Units::default());
        for later in [50, 20, 20] {
            assert!(three.spend(&mut units, T + later, 1));
        }
        assert_eq!(taken(&units), [20, 20, 50]);
        let figures = units.view(&three, T).figures(&three, 3, Change::Nothing);
        assert_eq!((figures.next_after, figures.more_after), (150, 120));
        assert!(!three.spend(&mut units, T, 1));
        let view = units.view(&three, T + 120);
        let change = view.spend(&three, 2).unwrap();
        let figures = view.figures(&three, 1, change);
        assert_eq!((figures.used, figures.next_after), (3, 30));
        units.change(&three, T + 40, Change::GiveBack { after: 0, units: 2 });
        assert!(three.spend(&mut units, T + 30, 1));
        assert_eq!(taken(&units), [30, 50]);
    }

    #[test]
    fn memory_is_8_bytes_for_each_unit_of_the_limit_at_most() {
        for limit in [1, 2, 5, 1000, 4096] {
            let (limited, mut units) = (window(limit, 1_000_000_000), Units::default());
            for later in 0..limit {
                assert!(limited.spend(&mut units, T + u64::from(later), 1));
            }
            assert_eq!(units.heap_bytes(), Units::heap_bytes_of(limit));
        }
    }

    #[test]
    fn impossible_windows_are_refused() {
        let second = Duration::from_secs(1);
        for (limit, span, error) in [
            (0, second, WindowError::ZeroLimit),
            (4097, second, WindowError::TooManyToRemember(4097)),
            (1, Duration::ZERO, WindowError::ZeroWindow),
            (1, Duration::from_nanos(1001), WindowError::TooFine),
            (
                1,
                Duration::from_micros((1 << 51) + 1),
                WindowError::TooLong,
            ),
        ] {
            assert_eq!(Window::new(limit, span), Err(error));
        }
        assert!(Window::new(4096, Duration::from_micros(1 << 51)).is_ok());
    }
}
