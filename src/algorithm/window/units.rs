use std::collections::VecDeque;

use super::{change::Change, view::WindowView, window::Window};
use crate::heap::allocated;

/// The instants at which the units of a [`Window`] were taken, which are the whole stored state of a bucket. The default
/// is an unused bucket.
///
/// It takes 8 bytes for each unit. [`Limit::window`](crate::Limit::window) has an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Microseconds since the Unix epoch, in ascending order.
    instants: VecDeque<u64>,
}

impl Units {
    /// Returns the units that count at `now`.
    pub(crate) fn view(&self, window: &Window, now: u64) -> WindowView<'_> {
        let (older, newer) = self.instants.as_slices();
        WindowView::of_parts([older, newer], window, now)
    }

    /// Changes the units that count at `now` (µs since the epoch), and forgets the others.
    pub(crate) fn change(&mut self, window: &Window, now: u64, change: Change) {
        self.change_at(window, now, change, now);
    }

    /// Does the same with the instant `at` for the units that are taken.
    pub(crate) fn change_at(&mut self, window: &Window, now: u64, change: Change, at: u64) {
        self.forget_outdated(window, now);
        match change {
            Change::Nothing => {}
            Change::Take { after, units } => self.insert(after, at, units, window),
            Change::GiveBack { after, units } => self.remove(after, units),
            Change::Renew { after, units, to } => {
                self.remove(after, units);
                self.insert(to, at, units, window);
            }
        }
    }

    fn remove(&mut self, after: u32, units: u32) {
        let after = after as usize;
        self.instants.drain(after..after + units as usize);
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
            let most = (window.limit() as usize).max(wanted);
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

    /// Returns the memory that the units take beyond their own size, in bytes, with what the allocator adds.
    pub(crate) fn allocated_bytes(&self) -> usize {
        allocated(self.instants.capacity() * size_of::<u64>())
    }

    /// Returns the memory for a number of units, in bytes, with what the allocator adds.
    pub(crate) const fn allocated_bytes_of(units: u32) -> usize {
        allocated(units as usize * size_of::<u64>())
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

/// Decisions without a backend, for simulators and tests.
impl Window {
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
        self.limit().saturating_sub(units.view(self, now).used())
    }

    /// Returns the time from `now` (µs) until a request of `cost`, which is at most the limit, would pass; zero if it
    /// would pass now.
    #[doc(hidden)]
    #[must_use]
    pub fn wait(&self, units: &Units, now: u64, cost: u32) -> u64 {
        let figures = units.view(self, now).figures(self, cost, Change::Nothing);
        figures.next_after
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::window_error::WindowError, *};

    const T: u64 = 1_767_225_600_000_000;

    fn window(limit: u32, us: u64) -> Window {
        Window::new(limit, Duration::from_micros(us)).unwrap()
    }

    #[test]
    fn memory_is_that_of_all_units_of_the_limit_at_most() {
        for limit in [1, 2, 5, 1000, 4096] {
            let (limited, mut units) = (window(limit, 1_000_000_000), Units::default());
            for later in 0..limit {
                assert!(limited.spend(&mut units, T + u64::from(later), 1));
            }
            assert_eq!(units.allocated_bytes(), Units::allocated_bytes_of(limit));
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
            assert_eq!(Window::checked(limit, span), Err(error));
        }
        assert!(Window::new(4096, Duration::from_micros(1 << 51)).is_ok());
    }
}
