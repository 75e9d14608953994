use std::{cmp::Ordering, time::Duration};

use super::time::{FOREVER, NEVER};

/// The longest tolerance of a limit, and the deepest debt of a bucket: 2⁵¹ µs, about 71 years. See
/// [`Gcra::new`](super::gcra::Gcra::new).
pub const MAX_TICKS_US: u64 = 1 << 51;

/// An exact span of time or instant: `us + frac / count` microseconds, where `count` is that of
/// the [`Gcra`](super::gcra::Gcra) it belongs to and `frac < count`.
///
/// Two values compare correctly only if they belong to the same count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ticks {
    /// Whole microseconds.
    pub us: u64,
    /// The rest, in parts of the count.
    pub frac: u32,
}

/// The theoretical arrival time of a bucket, in microseconds since the Unix epoch. It is all that a backend stores
/// for it: see [`Stored`](crate::decision::Stored).
pub type Tat = Ticks;

impl Ticks {
    /// A whole number of microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self { us, frac: 0 }
    }

    /// Compares a value in parts of `count` with another one in parts of `other_count`, exactly.
    #[doc(hidden)]
    #[must_use]
    pub fn compare(self, count: u32, other: Self, other_count: u32) -> Ordering {
        let ours = u64::from(self.frac) * u64::from(other_count);
        let theirs = u64::from(other.frac) * u64::from(count);
        self.us.cmp(&other.us).then(ours.cmp(&theirs))
    }

    /// Returns the instant itself, or the latest that can be stored. A TAT of 2⁵³ µs or more does not come from a
    /// decision, but for example from another program that writes to the store.
    pub(crate) const fn storable(self) -> Self {
        const LATEST: u64 = (1 << 53) - 1;
        let us = if self.us > LATEST { LATEST } else { self.us };
        Self { us, ..self }
    }

    /// Rounds up to whole microseconds.
    #[doc(hidden)]
    #[must_use]
    pub const fn ceil_micros(self) -> u64 {
        self.us.saturating_add((self.frac > 0) as u64)
    }

    /// Rounds up to a [`Duration`] of whole microseconds.
    #[must_use]
    pub const fn ceil(self) -> Duration {
        Duration::from_micros(self.ceil_micros())
    }
}

impl Ticks {
    /// Returns a number with the same order: first the microseconds, then the fraction. Comparing one number takes half
    /// of the instructions.
    #[inline]
    const fn ordinal(self) -> u128 {
        (self.us as u128) << 64 | self.frac as u128
    }
}

impl Ord for Ticks {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.ordinal().cmp(&other.ordinal())
    }
}

impl PartialOrd for Ticks {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.ordinal() < other.ordinal()
    }

    #[inline]
    fn le(&self, other: &Self) -> bool {
        self.ordinal() <= other.ordinal()
    }

    #[inline]
    fn gt(&self, other: &Self) -> bool {
        self.ordinal() > other.ordinal()
    }

    #[inline]
    fn ge(&self, other: &Self) -> bool {
        self.ordinal() >= other.ordinal()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a fraction is below the count, a u32"
)]
pub(super) const fn narrow(frac: u64) -> u32 {
    frac as u32
}

/// A wait, exact: `ticks` in parts of a count. [`NEVER`] is one that does not end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    ticks: Ticks,
    count: u32,
}

impl Wait {
    #[inline]
    pub(super) const fn new(ticks: Ticks, count: u32) -> Self {
        Self { ticks, count }
    }

    #[inline]
    pub(super) const fn micros(us: u64) -> Self {
        Self::new(Ticks::from_micros(us), 1)
    }

    /// Rounds up to whole microseconds, for display.
    #[inline]
    pub(crate) const fn ceil(self) -> Duration {
        match self.ticks.us {
            NEVER => FOREVER,
            _ => self.ticks.ceil(),
        }
    }

    /// Rounds up to whole microseconds; `None` if the wait does not end.
    #[inline]
    pub(super) fn ceil_micros(self) -> Option<u64> {
        (self.ticks.us != NEVER).then(|| self.ticks.ceil_micros())
    }

    /// Compares exactly.
    pub(super) fn compare(self, other: Self) -> Ordering {
        self.ticks.compare(self.count, other.ticks, other.count)
    }
}
