use std::{fmt, time::Duration};

use super::duration::{format_duration, format_span};
use crate::{
    gcra::{Gcra, GcraError},
    quota::{Per, Quota, UtcOffset},
    tiers::{Tier, Tiers, TiersError},
    transaction::Algorithm,
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
            Ok(window) => Self(LimitKind::By(Algorithm::Window(window))),
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
    /// assert_eq!(PLAN.to_string(), "10000 per month");
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
            Ok(quota) => Self(LimitKind::By(Algorithm::Quota(quota))),
            Err(_) => panic!("a quota of 0 lets nothing pass: use at least 1"),
        }
    }

    /// `count` per `period`. The burst is `count` too, so up to 2 × `count` − 1 can pass within one period.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    ///
    /// // Five per quarter of an hour.
    /// let logins = Limit::per(5, Duration::from_secs(15 * 60));
    /// assert_eq!(logins.to_string(), "5 per 15m0s, 5 at once");
    /// ```
    ///
    /// # Panics
    ///
    /// If `count` is 0, or the period is 0, has a fraction of a microsecond, or is longer than 71 years.
    #[must_use]
    #[track_caller]
    pub const fn per(count: u32, period: Duration) -> Self {
        Self::checked(count, count, period)
    }

    /// One per `interval`, with a burst of 1: at most one within any span `[t, t + interval)`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    ///
    /// // Ten per second, evenly spaced; three of them at once.
    /// let limit = Limit::every(Duration::from_millis(100)).burst(3);
    /// assert_eq!(limit.to_string(), "1 per 100ms, 3 at once");
    /// ```
    ///
    /// # Panics
    ///
    /// If the interval is 0, has a fraction of a microsecond, or is longer than 71 years.
    #[must_use]
    #[track_caller]
    pub const fn every(interval: Duration) -> Self {
        Self::checked(1, 1, interval)
    }

    /// `count` per second. The burst is `count` too, so up to 2 × `count` − 1 can pass within one second.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    #[must_use]
    #[track_caller]
    pub const fn per_second(count: u32) -> Self {
        Self::per(count, Duration::from_secs(1))
    }

    /// `count` per minute. The burst is `count` too, so up to 2 × `count` − 1 can pass within one minute.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    #[must_use]
    #[track_caller]
    pub const fn per_minute(count: u32) -> Self {
        Self::per(count, Duration::from_secs(60))
    }

    /// `count` per hour. The burst is `count` too, so up to 2 × `count` − 1 can pass within one hour.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    #[must_use]
    #[track_caller]
    pub const fn per_hour(count: u32) -> Self {
        Self::per(count, Duration::from_secs(60 * 60))
    }

    /// `count` per 24 hours. The burst is `count` too, so up to 2 × `count` − 1 can pass within one day.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    #[must_use]
    #[track_caller]
    pub const fn per_day(count: u32) -> Self {
        Self::per(count, Duration::from_secs(24 * 60 * 60))
    }

    /// Sets how many requests can pass at once. The rate does not change. The bound within any span changes with the burst.
    ///
    /// # Panics
    ///
    /// If `burst` is 0, or so high that an empty bucket would take more than 71 years to fill; or if the limit has
    /// tiers, which have limits of their own, or is a window or a quota, which have no burst, or none of all these.
    #[must_use]
    #[track_caller]
    pub const fn burst(self, burst: u32) -> Self {
        let gcra = match &self.0 {
            LimitKind::By(Algorithm::Gcra(gcra)) => *gcra,
            LimitKind::Leased(_) => {
                panic!("the limit is leased: set the burst of the one that is configured")
            }
            LimitKind::By(Algorithm::Tiers(_)) => panic!("tiers have no burst: set their limits"),
            LimitKind::By(Algorithm::Window(_)) => panic!("a window has no burst: set its limit"),
            LimitKind::By(Algorithm::Quota(_)) => panic!("a quota has no burst: set the quota"),
            LimitKind::Unlimited | LimitKind::Blocked => {
                panic!("there is nothing that a burst could be of")
            }
        };
        // The limit has nothing to drop, but a `const fn` may not drop it.
        let _ = std::mem::ManuallyDrop::new(self);
        match Gcra::new(burst, gcra.count(), gcra.period()) {
            Ok(other) => Self::built(other.with_max_wait(gcra.max_wait())),
            error => Self::built(error),
        }
    }

    /// Lets requests wait in line: a request that does not fit yet waits for up to `max_wait` instead of being
    /// denied. With zero, no request waits.
    ///
    /// [`Decision::delay`](crate::Decision::delay) says how long a request waits. Requests start in the order in which they
    /// came, one emission interval apart, across all processes that share the bucket.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    ///
    /// // Ten per second, twenty at once. Further requests wait for up to two seconds.
    /// let limit = Limit::per_second(10).burst(20).max_wait(Duration::from_secs(2));
    /// assert_eq!(limit.to_string(), "10 per 1s, 20 at once, waiting up to 2s");
    /// ```
    ///
    /// For values that are not constants, use [`Gcra::with_max_wait`] and then `Limit::from`.
    ///
    /// # Panics
    ///
    /// If the wait has a fraction of a microsecond, or is longer than 71 years together with the time in which an empty
    /// bucket fills; or if the limit has no burst, count and period, because only their buckets have a line.
    #[must_use]
    #[track_caller]
    pub const fn max_wait(self, max_wait: Duration) -> Self {
        let gcra = match &self.0 {
            LimitKind::By(Algorithm::Gcra(gcra)) => *gcra,
            LimitKind::Leased(_) => panic!("a limit with leases has no line to wait in"),
            LimitKind::By(Algorithm::Tiers(_)) => panic!(
                "tiers have no line to wait in, because a later grant depends on which tier is active then: \
                 use burst, count and period"
            ),
            LimitKind::By(Algorithm::Window(_) | Algorithm::Quota(_)) => {
                panic!("windows and quotas have no line to wait in: use burst, count and period")
            }
            LimitKind::Unlimited | LimitKind::Blocked => {
                panic!("there is nothing to wait for: use a limit")
            }
        };
        let _ = std::mem::ManuallyDrop::new(self);
        Self::built(gcra.with_max_wait(max_wait))
    }

    #[track_caller]
    const fn checked(burst: u32, count: u32, period: Duration) -> Self {
        Self::built(Gcra::new(burst, count, period))
    }

    #[track_caller]
    const fn built(gcra: Result<Gcra, GcraError>) -> Self {
        match gcra {
            Ok(gcra) => Self::by(gcra),
            Err(GcraError::ZeroBurst) => panic!("a burst of 0 lets nothing pass: use at least 1"),
            Err(GcraError::ZeroCount) => panic!("a count of 0 lets nothing pass: use at least 1"),
            Err(GcraError::ZeroPeriod) => panic!("a period of 0 limits nothing: use at least 1 µs"),
            Err(GcraError::PeriodTooFine) => {
                panic!("a period is a whole number of microseconds: round it to one")
            }
            Err(GcraError::ToleranceTooLong) => {
                panic!("an empty bucket would take more than 71 years to fill: lower the burst")
            }
            Err(GcraError::WaitTooFine) => {
                panic!("a wait is a whole number of microseconds: round it to one")
            }
            Err(GcraError::WaitTooLong) => {
                panic!("waiting for an empty bucket would take more than 71 years: lower the wait")
            }
        }
    }

    const fn by(gcra: Gcra) -> Self {
        Self(LimitKind::By(Algorithm::Gcra(gcra)))
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
        // A smaller limit is valid if the whole one is.
        let (left, whole) = match self.algorithm() {
            Some(Algorithm::Gcra(gcra)) => {
                let left = Gcra::new(burst, gcra.count(), gcra.period()).unwrap_or(*gcra);
                (Algorithm::Gcra(left), gcra.burst())
            }
            Some(Algorithm::Quota(quota)) => {
                let left = Quota::new(burst, quota.per()).unwrap_or(*quota);
                (Algorithm::Quota(left), quota.quota())
            }
            _ => return self.clone(),
        };
        Self(LimitKind::Leased(Leased {
            algorithm: left,
            units,
            whole,
        }))
    }

    /// Returns the algorithm, and the most unspent units of a bucket that a process can hold: 0 without leases.
    #[inline(always)]
    pub(crate) fn algorithm_and_lease(&self) -> Option<(&Algorithm, u32)> {
        match &self.0 {
            LimitKind::By(algorithm) => Some((algorithm, 0)),
            _ => self.leased_algorithm(),
        }
    }

    /// Apart, because a comparison takes less than a jump.
    #[inline(never)]
    fn leased_algorithm(&self) -> Option<(&Algorithm, u32)> {
        match &self.0 {
            LimitKind::Leased(leased) => Some((&leased.algorithm, leased.units)),
            _ => None,
        }
    }

    /// The burst or the quota of a limit with leases, before it was split.
    pub(super) const fn before_split(&self) -> Option<u32> {
        match &self.0 {
            LimitKind::Leased(leased) => Some(leased.whole),
            _ => None,
        }
    }

    /// Returns whether requests can wait in line.
    pub(crate) fn has_line(&self) -> bool {
        match self.algorithm() {
            Some(Algorithm::Gcra(gcra)) => gcra.max_wait_us() > 0,
            _ => false,
        }
    }

    /// Returns the highest cost that can ever pass. It is `None` for limits that allow or deny every cost.
    #[must_use]
    pub fn max_cost(&self) -> Option<u32> {
        match self.algorithm()? {
            Algorithm::Gcra(gcra) => Some(gcra.burst()),
            Algorithm::Tiers(tiers) => Some(tiers.max_units()),
            Algorithm::Window(window) => Some(window.limit()),
            Algorithm::Quota(quota) => Some(quota.quota()),
        }
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
        Self(LimitKind::By(Algorithm::Tiers(tiers)))
    }
}

impl fmt::Display for Limit {
    /// Writes `10 per 1s, 20 at once` (with the wait, if the limit has a line), `5 in any 15m0s`, `1000 per day`,
    /// `unlimited`, `blocked`, or one tier after the other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.algorithm() {
            Some(Algorithm::Gcra(gcra)) => {
                let period = format_duration(gcra.period());
                write!(f, "{} per {period}, {} at once", gcra.count(), gcra.burst())?;
                match gcra.max_wait() {
                    Duration::ZERO => Ok(()),
                    wait => write!(f, ", waiting up to {}", format_duration(wait)),
                }
            }
            Some(Algorithm::Tiers(tiers)) => {
                for (i, tier) in tiers.iter().enumerate() {
                    let (window, active) = (format_span(tier.window), format_span(tier.active));
                    let then = if i > 0 { ", then " } else { "" };
                    write!(f, "{then}{} per {window} for {active}", tier.limit)?;
                }
                Ok(())
            }
            Some(Algorithm::Window(window)) => {
                let span = format_duration(window.window());
                write!(f, "{} in any {span}", window.limit())
            }
            Some(Algorithm::Quota(quota)) => write_quota(f, quota),
            None if self.is_blocked() => f.write_str("blocked"),
            None => f.write_str("unlimited"),
        }
    }
}

/// Writes `1000 per day`, `1000 per day at +02:00` or `1000 per 24h0m0s from first use`.
fn write_quota(f: &mut fmt::Formatter<'_>, quota: &Quota) -> fmt::Result {
    write!(f, "{} per ", quota.quota())?;
    match quota.per().calendar_unit() {
        Some((unit, UtcOffset::UTC)) => write!(f, "{unit}"),
        Some((unit, offset)) => write!(f, "{unit} at {offset}"),
        None => {
            let length = quota.per().first_use_length().unwrap_or_default();
            write!(f, "{} from first use", format_duration(length))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_per_second_is_ten_per_second() {
        assert_eq!(
            Limit::per_second(10),
            Limit::new(10, 10, Duration::from_secs(1)).unwrap()
        );
        assert_eq!(
            Limit::per_minute(7),
            Limit::new(7, 7, Duration::from_secs(60)).unwrap()
        );
        assert_eq!(
            Limit::per_hour(7),
            Limit::new(7, 7, Duration::from_secs(3600)).unwrap()
        );
        assert_eq!(
            Limit::per_day(7),
            Limit::new(7, 7, Duration::from_secs(86_400)).unwrap()
        );
    }

    #[test]
    fn burst_keeps_the_rate() {
        const LIMIT: Limit = Limit::per_minute(60).burst(100);
        assert_eq!(LIMIT, Limit::new(100, 60, Duration::from_secs(60)).unwrap());
        assert_eq!(LIMIT.max_cost(), Some(100));
        assert_eq!(LIMIT.to_string(), "60 per 1m0s, 100 at once");
    }

    #[test]
    fn line_is_kept_by_another_burst_and_removed_by_a_wait_of_zero() {
        const LIMIT: Limit = Limit::per_second(10)
            .max_wait(Duration::from_millis(1500))
            .burst(20);
        let gcra = Gcra::new(20, 10, Duration::from_secs(1)).unwrap();
        let waits = gcra.with_max_wait(Duration::from_millis(1500)).unwrap();
        assert_eq!(LIMIT, waits.into());
        assert_eq!(LIMIT.max_wait(Duration::ZERO), gcra.into());
    }

    #[test]
    fn only_burst_count_and_period_have_a_line() {
        let second = Duration::from_secs(1);
        let others = [
            (
                Limit::tiers([Tier::new(5, second)]).unwrap(),
                "tiers have no line",
            ),
            (Limit::window(5, second), "windows and quotas have no line"),
            (Limit::quota(5, Per::Day), "windows and quotas have no line"),
            (Limit::UNLIMITED, "there is nothing to wait for"),
            (Limit::BLOCKED, "there is nothing to wait for"),
        ];
        for (limit, expected) in others {
            let panic = std::panic::catch_unwind(|| limit.max_wait(second)).unwrap_err();
            let message = panic.downcast_ref::<&str>().copied();
            let message = message.or_else(|| panic.downcast_ref::<String>().map(|text| &**text));
            assert!(
                message.is_some_and(|text| text.contains(expected)),
                "{message:?}"
            );
        }
    }

    #[test]
    fn waits_are_whole_microseconds_within_the_range_of_times() {
        let gcra = Gcra::new(1, 3, Duration::from_secs(1)).unwrap();
        let most = Duration::from_micros(crate::gcra::MAX_TICKS_US - 333_334);
        assert_eq!(gcra.with_max_wait(most).unwrap().max_wait(), most);
        let micro = Duration::from_micros(1);
        for (wait, error) in [
            (most + micro, GcraError::WaitTooLong),
            (
                Duration::MAX - Duration::from_nanos(999),
                GcraError::WaitTooLong,
            ),
            (Duration::from_nanos(1500), GcraError::WaitTooFine),
        ] {
            assert_eq!(gcra.with_max_wait(wait), Err(error), "{wait:?}");
        }
    }

    #[test]
    #[should_panic(expected = "a count of 0 lets nothing pass")]
    fn zero_per_second_panics() {
        let _ = Limit::per_second(0);
    }

    #[test]
    #[should_panic(expected = "a burst of 0 lets nothing pass")]
    fn zero_burst_panics() {
        let _ = Limit::per_second(1).burst(0);
    }
}
