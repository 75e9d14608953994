use std::{mem::ManuallyDrop, time::Duration};

use crate::{
    algorithm::{Algorithm, LimitError, NotationError},
    concurrency::{Concurrency, ConcurrencyError},
    gcra::Gcra,
    quota::{Per, Quota},
    tiers::{Tier, Tiers},
    window::{Window, WindowError},
};

/// The amount that a client may use: the number of requests that can pass at once, and the rate in the long run.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Limit;
///
/// // Ten per second (not one per ten seconds), twenty of them at once.
/// let limit = Limit::per_second(10).burst(20);
/// // The same in full: burst, count, period.
/// assert_eq!(limit, Limit::new(20, 10, Duration::from_secs(1))?);
/// # Ok::<_, tollgate::limit::LimitError>(())
/// ```
///
/// The constructors that return `Self` panic on invalid values, at compile time in a `const`. For values from
/// elsewhere, use [`Limit::new`] or, for text such as `10/s burst 20`, [`FromStr`](#impl-FromStr-for-Limit).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit(LimitKind);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum LimitKind {
    By(Algorithm),
    Unlimited,
    Blocked,
}

impl Limit {
    /// Everything passes, and nothing is counted. Use it in an override, to exempt a client.
    /// [`LimitsBuilder::override_for`](super::LimitsBuilder::override_for) has an example.
    pub const UNLIMITED: Self = Self(LimitKind::Unlimited);

    /// Nothing passes, whatever is refunded or reset. Use it in an override, to block a client, or as a default, to
    /// block every client without an override.
    pub const BLOCKED: Self = Self(LimitKind::Blocked);

    /// The limit of a list of blocked clients: a debt of one token lasts for one second.
    pub(super) const BLOCK: Self = Self::per_second(1);

    /// At most `burst` at once. `count` tokens come back in each `period`.
    ///
    /// Within a span of time it admits up to burst + ⌈span / T⌉ − 1, where T is the period divided by the count. `1000
    /// per day` with a burst of 1000 admits up to 1999 in a day. For a hard number, use a [`window`](Self::window) or a
    /// [`quota`](Self::quota); [`most_within`](Self::most_within) says what any limit admits.
    ///
    /// # Errors
    ///
    /// If one of them is zero, if the period is not a whole number of microseconds, or if an empty bucket would take
    /// more than 2⁵¹ µs (71 years) to fill.
    pub const fn new(burst: u32, count: u32, period: Duration) -> Result<Self, LimitError> {
        match Gcra::checked(burst, count, period) {
            Ok(gcra) => Ok(Self::by(gcra)),
            Err(error) => Err(LimitError::new(NotationError::Gcra(error))),
        }
    }

    /// Burst [tiers](crate::tiers), lowest first, instead of burst, count and period.
    ///
    /// Within any span, they admit at most the sum over all tiers, each entered as often as possible.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, tiers::Tier};
    ///
    /// let secs = Duration::from_secs;
    /// // Five per second. The sixth request blocks the client for fifteen seconds.
    /// let limit = Limit::tiers([
    ///     Tier::new(5, secs(1)),
    ///     Tier::new(1, secs(15)).active(secs(15)),
    /// ])?;
    /// # Ok::<_, tollgate::limit::LimitError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Tiers::new`].
    pub fn tiers(tiers: impl IntoIterator<Item = Tier>) -> Result<Self, LimitError> {
        Tiers::new(tiers).map(Self::from)
    }

    /// At most `limit` within any span of the length `window`: a [sliding window](crate::window).
    ///
    /// The bound is hard: no span `[t, t + window)` admits more than the limit. Each unit is remembered, so this is for
    /// small numbers such as logins. For values that are not constants, use [`Window::new`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    ///
    /// let quarter = Duration::from_secs(15 * 60);
    /// // Five in any quarter of an hour.
    /// let logins = Limit::window(5, quarter);
    /// assert_eq!(logins.to_string(), "5 in any 15m0s");
    /// assert_eq!(logins.most_within(quarter), Some(5));
    /// // A token bucket of the same size admits more.
    /// assert_eq!(Limit::per(5, quarter).most_within(quarter), Some(9));
    /// ```
    ///
    /// # Panics
    ///
    /// If `limit` is 0 or above 4096, or the window is 0, has a fraction of a microsecond, or is longer than 71 years.
    #[must_use]
    #[track_caller]
    pub const fn window(limit: u32, window: Duration) -> Self {
        match Window::checked(limit, window) {
            Ok(window) => Self::of(Algorithm::Window(window)),
            Err(WindowError::ZeroLimit) => panic!("a limit of 0 lets nothing pass: use at least 1"),
            Err(WindowError::TooManyToRemember(_)) => {
                panic!("a window remembers at most 4096 units: lower the limit, or use a quota")
            }
            Err(WindowError::ZeroWindow) => {
                panic!("a window of 0 limits nothing: use at least 1 µs")
            }
            Err(WindowError::TooFine) => {
                panic!("a window is a whole number of microseconds: round it to one")
            }
            Err(WindowError::TooLong) => panic!("a window is at most 71 years: shorten it"),
        }
    }

    /// At most `quota` in each period: a [quota](crate::quota) per calendar hour, day, week or month, or per span from
    /// first use.
    ///
    /// The bound is hard for each period. A span that touches two periods can see the quotas of both. For values that
    /// are not constants, use [`Quota::new`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, quota::Per};
    ///
    /// const PLAN: Limit = Limit::quota(10_000, Per::Month);
    /// assert_eq!(PLAN.to_string(), "10000 per calendar month");
    ///
    /// let day = Duration::from_secs(24 * 60 * 60);
    /// assert_eq!(Limit::quota(1000, Per::Day).most_within(day), Some(2000));
    /// assert_eq!(Limit::quota(1000, Per::first_use(day)).most_within(day), Some(1999));
    /// ```
    ///
    /// # Panics
    ///
    /// If `quota` is 0.
    #[must_use]
    #[track_caller]
    pub const fn quota(quota: u32, per: Per) -> Self {
        match Quota::checked(quota, per) {
            Ok(quota) => Self::of(Algorithm::Quota(quota)),
            Err(_) => panic!("a quota of 0 lets nothing pass: use at least 1"),
        }
    }

    /// At most `limit` at once: a [concurrency limit](crate::concurrency), for work that takes time, such as exports,
    /// uploads and streams.
    ///
    /// A permit counts until the work has ended, and at most 30 seconds longer than its process renews it;
    /// [`hold`](Self::hold) changes that. For values that are not constants, use [`Concurrency::new`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    ///
    /// // Two exports at a time. Those of a process that dies count for another minute.
    /// let exports = Limit::concurrent(2).hold(Duration::from_secs(60));
    /// assert_eq!(exports.to_string(), "2 at once, held for 1m0s");
    /// assert_eq!("2 at once".parse(), Ok(Limit::concurrent(2)));
    /// ```
    ///
    /// # Panics
    ///
    /// If `limit` is 0 or above 4096.
    #[must_use]
    #[track_caller]
    pub const fn concurrent(limit: u32) -> Self {
        Self::permits(Concurrency::checked(limit))
    }

    /// Sets the time for which a permit of a [concurrency limit](Self::concurrent) counts after it was taken or renewed. A
    /// process that dies gives its permits back after at most this time, and one that is paused for longer loses them.
    ///
    /// A reload that changes it renews the permits of the process. Those that were renewed longer ago than a shorter hold are
    /// lost, so shorten it by less than half at a time: each permit is renewed every third of its hold.
    ///
    /// # Panics
    ///
    /// If the limit is of another algorithm, or the time is below 1 s, above 24 h or has a fraction of a microsecond.
    #[must_use]
    #[track_caller]
    pub const fn hold(self, hold: Duration) -> Self {
        let Some(limit) = self.concurrency() else {
            panic!("only a limit of what runs at once has a hold: use `Limit::concurrent`")
        };
        let held = limit.checked_hold(hold);
        let _ = ManuallyDrop::new(self);
        Self::permits(held)
    }

    /// Returns the values of a limit of what runs at once.
    pub(super) const fn concurrency(&self) -> Option<Concurrency> {
        match self.algorithm() {
            Some(Algorithm::Concurrency(limit)) => Some(*limit),
            _ => None,
        }
    }

    #[track_caller]
    pub(super) const fn permits(limit: Result<Concurrency, ConcurrencyError>) -> Self {
        match limit {
            Ok(limit) => Self::of(Algorithm::Concurrency(limit)),
            Err(ConcurrencyError::ZeroLimit) => {
                panic!("a limit of 0 lets nothing pass: use at least 1")
            }
            Err(ConcurrencyError::TooManyToRemember(_)) => {
                panic!("at most 4096 permits are remembered: lower the limit")
            }
            Err(ConcurrencyError::HoldOutOfRange) => {
                panic!("permits are held for 1 s to 24 h: change the hold")
            }
            Err(ConcurrencyError::HoldTooFine) => {
                panic!("a hold is a whole number of microseconds: round it to one")
            }
            Err(ConcurrencyError::WaitTooFine) => {
                panic!("a wait is a whole number of microseconds: round it to one")
            }
            Err(ConcurrencyError::WaitTooLong) => panic!("a wait is at most 71 years: shorten it"),
        }
    }

    pub(super) const fn by(gcra: Gcra) -> Self {
        Self::of(Algorithm::Gcra(gcra))
    }

    /// The algorithm and its parameters, or `None` for [`UNLIMITED`](Self::UNLIMITED) and [`BLOCKED`](Self::BLOCKED),
    /// which have no buckets.
    #[must_use]
    #[inline]
    pub const fn algorithm(&self) -> Option<&Algorithm> {
        match &self.0 {
            LimitKind::By(algorithm) => Some(algorithm),
            LimitKind::Unlimited | LimitKind::Blocked => None,
        }
    }

    /// Returns whether nothing passes.
    #[must_use]
    pub const fn is_blocked(&self) -> bool {
        matches!(self.0, LimitKind::Blocked)
    }

    /// Returns whether requests can wait in line.
    pub(crate) fn has_line(&self) -> bool {
        self.algorithm().is_some_and(Algorithm::has_line)
    }

    /// Returns the highest cost that can ever pass; `None` for limits that allow or deny every cost.
    ///
    /// [Leases](crate::guide::leases) leave less than this to a single cost.
    #[must_use]
    pub fn max_cost(&self) -> Option<u32> {
        self.algorithm().map(Algorithm::max_cost)
    }

    /// The most cost that one bucket admits within a span `[t, t + window)`, wherever it starts; `None` if nothing bounds it.
    ///
    /// Debits, resets, refunds and changes of the limit are not counted. Units that are refunded within the span can be
    /// admitted again.
    ///
    /// | limit | bound for a span `W` |
    /// |---|---|
    /// | burst, count and period | burst + ⌈W / T⌉ − 1, where T is the period divided by the count |
    /// | window | limit × ⌈W / window⌉ |
    /// | quota per hour, day, week or month | quota × as many periods as the span can touch |
    /// | quota Q per length L from first use | the larger of Q × ⌈W / L⌉ and Q − 1 + Q × ⌈(W − 1 µs) / L⌉ |
    /// | tiers | the sum over the tiers, each entered as often as it can be |
    /// | concurrent | `None`: work that ends makes room for the next |
    /// | unlimited, blocked | `None`, 0 |
    ///
    /// Some sequence of requests reaches the bound, with two exceptions. Tiers may admit less, because they do not
    /// grant from all of their tiers at once. An interval T that is not a whole number of microseconds may also admit
    /// less.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, quota::Per};
    ///
    /// let day = Duration::from_secs(24 * 60 * 60);
    /// assert_eq!(Limit::per_day(1000).most_within(day), Some(1999));
    /// assert_eq!(Limit::quota(1000, Per::Day).most_within(day), Some(2000));
    /// assert_eq!(Limit::window(1000, day).most_within(day), Some(1000));
    /// ```
    #[must_use]
    pub fn most_within(&self, window: Duration) -> Option<u64> {
        let most = match self.algorithm() {
            _ if window.is_zero() || self.is_blocked() => 0,
            algorithm => algorithm?.most_within(window)?,
        };
        Some(u64::try_from(most).unwrap_or(u64::MAX))
    }

    /// Creates a limit from an algorithm.
    pub(crate) const fn of(algorithm: Algorithm) -> Self {
        Self(LimitKind::By(algorithm))
    }
}

impl From<Window> for Limit {
    fn from(window: Window) -> Self {
        Self::of(Algorithm::Window(window))
    }
}

impl From<Concurrency> for Limit {
    fn from(limit: Concurrency) -> Self {
        Self::of(Algorithm::Concurrency(limit))
    }
}

impl From<Quota> for Limit {
    fn from(quota: Quota) -> Self {
        Self::of(Algorithm::Quota(quota))
    }
}

impl From<Gcra> for Limit {
    fn from(gcra: Gcra) -> Self {
        Self::by(gcra)
    }
}

impl From<Tiers> for Limit {
    fn from(tiers: Tiers) -> Self {
        Self::of(Algorithm::Tiers(tiers))
    }
}
