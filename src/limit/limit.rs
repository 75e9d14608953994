use std::time::Duration;

use crate::{
    gcra::{Gcra, GcraError},
    quota::{Per, Quota},
    tiers::{Tier, Tiers, TiersError},
    transaction::{Algorithm, LeasedPart},
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
/// # Ok::<_, tollgate::gcra::GcraError>(())
/// ```
///
/// The constructors that return `Self` panic on invalid values, at compile time in a `const`. For values from
/// elsewhere, use [`Limit::new`] or, for text such as `10/s burst 20`, [`FromStr`](#impl-FromStr-for-Limit).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit(LimitKind);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum LimitKind {
    By(Algorithm),
    /// A limit with leases, after a limiter has split it.
    Leased(Leased),
    Unlimited,
    Blocked,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Leased {
    /// The algorithm with the burst or the quota that is left for the store.
    algorithm: Algorithm,
    /// The most units that each process can hold.
    units: u32,
    /// The burst or the quota before it was split.
    whole: u32,
}

impl Limit {
    /// Everything passes, and nothing is counted. Use it in an override, to exempt a client.
    /// [`LimitsBuilder::override_for`](super::LimitsBuilder::override_for) has an example.
    pub const UNLIMITED: Self = Self(LimitKind::Unlimited);

    /// Nothing passes, whatever is refunded or reset. Use it in an override, to block a client, or as a default, to
    /// block every client without an override.
    pub const BLOCKED: Self = Self(LimitKind::Blocked);

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
    pub const fn new(burst: u32, count: u32, period: Duration) -> Result<Self, GcraError> {
        match Gcra::new(burst, count, period) {
            Ok(gcra) => Ok(Self::by(gcra)),
            Err(error) => Err(error),
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
    /// # Ok::<_, tollgate::tiers::TiersError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Tiers::new`].
    pub fn tiers(tiers: impl IntoIterator<Item = Tier>) -> Result<Self, TiersError> {
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
    /// assert_eq!(logins.most_within(quarter), 5);
    /// // A token bucket of the same size admits more.
    /// assert_eq!(Limit::per(5, quarter).most_within(quarter), 9);
    /// ```
    ///
    /// # Panics
    ///
    /// If `limit` is 0 or above 4096, or the window is 0, has a fraction of a microsecond, or is longer than 71 years.
    #[must_use]
    #[track_caller]
    pub const fn window(limit: u32, window: Duration) -> Self {
        match Window::new(limit, window) {
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
    /// assert_eq!(Limit::quota(1000, Per::Day).most_within(day), 2000);
    /// assert_eq!(Limit::quota(1000, Per::first_use(day)).most_within(day), 1999);
    /// ```
    ///
    /// # Panics
    ///
    /// If `quota` is 0.
    #[must_use]
    #[track_caller]
    pub const fn quota(quota: u32, per: Per) -> Self {
        match Quota::new(quota, per) {
            Ok(quota) => Self::of(Algorithm::Quota(quota)),
            Err(_) => panic!("a quota of 0 lets nothing pass: use at least 1"),
        }
    }

    pub(super) const fn by(gcra: Gcra) -> Self {
        Self::of(Algorithm::Gcra(gcra))
    }

    /// The algorithm and its parameters, or `None` for [`UNLIMITED`](Self::UNLIMITED) and [`BLOCKED`](Self::BLOCKED),
    /// which have no buckets.
    #[must_use]
    pub const fn algorithm(&self) -> Option<&Algorithm> {
        match &self.0 {
            LimitKind::By(algorithm) | LimitKind::Leased(Leased { algorithm, .. }) => {
                Some(algorithm)
            }
            LimitKind::Unlimited | LimitKind::Blocked => None,
        }
    }

    /// Returns whether nothing passes.
    #[must_use]
    pub const fn is_blocked(&self) -> bool {
        matches!(self.0, LimitKind::Blocked)
    }

    /// Returns the same limit with leases: each process may hold `units`, and the store uses `burst` as its burst or
    /// quota.
    pub(crate) fn leased(&self, units: u32, burst: u32) -> Self {
        let leased = self.algorithm().and_then(|whole| {
            Some(Leased {
                algorithm: whole.with_most(burst)?,
                units,
                whole: whole.max_cost(),
            })
        });
        leased.map_or_else(|| self.clone(), |leased| Self(LimitKind::Leased(leased)))
    }

    /// Returns the algorithm as it was configured, before it was split.
    pub(super) fn configured(&self) -> Option<Algorithm> {
        let algorithm = self.algorithm()?;
        match self.before_split() {
            Some(whole) => algorithm.with_most(whole),
            None => Some(algorithm.clone()),
        }
    }

    /// Returns the algorithm, unless the limit has leases.
    #[inline(always)]
    pub(crate) fn unleased(&self) -> Option<&Algorithm> {
        match &self.0 {
            LimitKind::By(algorithm) => Some(algorithm),
            _ => None,
        }
    }

    /// Returns the algorithm, and the part of the limit that leases take.
    #[inline(always)]
    pub(crate) fn algorithm_and_lease(&self) -> Option<(&Algorithm, LeasedPart)> {
        const NONE: LeasedPart = LeasedPart {
            units: 0,
            reserved: 0,
        };
        match &self.0 {
            LimitKind::By(algorithm) => Some((algorithm, NONE)),
            _ => self.leased_algorithm(),
        }
    }

    /// Apart, because a comparison takes less than a jump.
    #[inline(never)]
    fn leased_algorithm(&self) -> Option<(&Algorithm, LeasedPart)> {
        let LimitKind::Leased(leased) = &self.0 else {
            return None;
        };
        let left = self.max_cost().unwrap_or(leased.whole);
        let part = LeasedPart {
            units: leased.units,
            reserved: leased.whole.saturating_sub(left),
        };
        Some((&leased.algorithm, part))
    }

    /// The burst or the quota of a limit with leases, before it was split.
    pub(crate) const fn before_split(&self) -> Option<u32> {
        match &self.0 {
            LimitKind::Leased(leased) => Some(leased.whole),
            _ => None,
        }
    }

    /// Returns whether requests can wait in line.
    pub(crate) fn has_line(&self) -> bool {
        self.algorithm().is_some_and(Algorithm::has_line)
    }

    /// Returns the highest cost that can ever pass. It is `None` for limits that allow or deny every cost.
    #[must_use]
    pub fn max_cost(&self) -> Option<u32> {
        self.algorithm().map(Algorithm::max_cost)
    }

    /// The most cost that one bucket admits within a span `[t, t + window)`, wherever it starts.
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
    /// | unlimited, blocked | `u64::MAX`, 0 |
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
    /// assert_eq!(Limit::per_day(1000).most_within(day), 1999);
    /// assert_eq!(Limit::quota(1000, Per::Day).most_within(day), 2000);
    /// assert_eq!(Limit::window(1000, day).most_within(day), 1000);
    /// ```
    #[must_use]
    pub fn most_within(&self, window: Duration) -> u64 {
        let most = match self.algorithm() {
            _ if window.is_zero() || self.is_blocked() => return 0,
            None => return u64::MAX,
            Some(algorithm) => algorithm.most_within(window),
        };
        u64::try_from(most).unwrap_or(u64::MAX)
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
