use std::{mem::ManuallyDrop, time::Duration};

use crate::{
    algorithm::{
        Algorithm, AlgorithmKey, AnyState, InvalidValue, LimitError, State,
        concurrency::Concurrency,
        gcra::Gcra,
        quota::{Per, Quota},
        tiers::{History, Tier, TierState, Tiers},
        window::Window,
    },
    clock::Timestamp,
};

/// The amount that a client may use: usually the number of requests that can pass at once, and the rate in the long run.
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

    /// Nothing passes. Refunds and resets do not change that. Use it in an override, to block a client, or as a default, to block
    /// every client without an override.
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
    pub const fn new(burst: u32, count: u32, period: Duration) -> Result<Self, LimitError> {
        match Gcra::new(burst, count, period) {
            Ok(gcra) => Ok(Self::of(Algorithm::Gcra(gcra))),
            Err(invalid) => Err(LimitError::of(invalid)),
        }
    }

    /// `count` per `period`. The burst is also `count`, so up to 2 × `count` − 1 can pass within one period.
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
        Self::of(Algorithm::Gcra(valid(Gcra::new(count, count, period))))
    }

    /// One per `interval`, with a burst of 1: at most one within any span `[t, t + interval)`. It panics as [`per`](Self::per)
    /// does.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    ///
    /// // Ten per second, evenly spaced; three of them at once.
    /// let limit = Limit::every(Duration::from_millis(100)).burst(3);
    /// assert_eq!(limit.to_string(), "1 per 100ms, 3 at once");
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn every(interval: Duration) -> Self {
        Self::per(1, interval)
    }

    /// [`per`](Self::per) with a period of a second: up to 2 × `count` − 1 can pass within one second. It panics if `count` is 0.
    #[must_use]
    #[track_caller]
    pub const fn per_second(count: u32) -> Self {
        Self::per(count, Duration::from_secs(1))
    }

    /// [`per`](Self::per) with a period of a minute: up to 2 × `count` − 1 can pass within one minute. It panics if `count` is 0.
    #[must_use]
    #[track_caller]
    pub const fn per_minute(count: u32) -> Self {
        Self::per(count, Duration::from_secs(60))
    }

    /// [`per`](Self::per) with a period of an hour: up to 2 × `count` − 1 can pass within one hour. It panics if `count` is 0.
    #[must_use]
    #[track_caller]
    pub const fn per_hour(count: u32) -> Self {
        Self::per(count, Duration::from_secs(60 * 60))
    }

    /// [`per`](Self::per) with a period of 24 hours: up to 2 × `count` − 1 can pass within one day. It panics if `count` is 0.
    #[must_use]
    #[track_caller]
    pub const fn per_day(count: u32) -> Self {
        Self::per(count, Duration::from_secs(24 * 60 * 60))
    }

    /// Sets how many requests can pass at once. The rate does not change. The bound within any span changes with the burst.
    ///
    /// # Panics
    ///
    /// If `burst` is 0, or so high that an empty bucket would take more than 71 years to fill, or if the limit has no burst,
    /// count and period.
    #[must_use]
    #[track_caller]
    pub const fn burst(self, burst: u32) -> Self {
        let gcra = self.gcra("only a limit per period has a burst: remove `burst`");
        self.replaced(Algorithm::Gcra(valid(gcra.with_burst(burst))))
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
    /// # Panics
    ///
    /// If the wait has a fraction of a microsecond, or is longer than 71 years together with the time in which an empty bucket
    /// fills, or if the limit has no burst, count and period.
    #[must_use]
    #[track_caller]
    pub const fn max_wait(self, max_wait: Duration) -> Self {
        let gcra = self.gcra("only a limit per period, such as `Limit::per_second`, has a line to wait in: remove `max_wait`");
        self.replaced(Algorithm::Gcra(valid(gcra.with_max_wait(max_wait))))
    }

    /// At most `limit` within any span of the length `window`: a [sliding window](crate::guide::algorithms).
    ///
    /// The bound is hard: no span `[t, t + window)` admits more than the limit. Each unit is remembered, so this is for
    /// small numbers such as logins.
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
        Self::of(Algorithm::Window(valid(Window::new(limit, window))))
    }

    /// At most `quota` in each period: a [quota](crate::quota) per calendar hour, day, week or month, or per span from
    /// first use.
    ///
    /// The bound is hard for each period. A span that touches two periods can see the quotas of both. It panics if `quota` is 0.
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
    #[must_use]
    #[track_caller]
    pub const fn quota(quota: u32, per: Per) -> Self {
        Self::of(Algorithm::Quota(valid(Quota::new(quota, per))))
    }

    /// At most `limit` at once: a [concurrency limit](crate::guide::algorithms), for work that takes time, such as exports,
    /// uploads and streams.
    ///
    /// A permit counts until the work has ended. If its process no longer renews it, it counts for at most 30 more seconds;
    /// [`hold`](Self::hold) changes this time.
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
        Self::of(Algorithm::Concurrency(valid(Concurrency::new(limit))))
    }

    /// Sets the time for which a permit of a [concurrency limit](Self::concurrent) counts after it was taken or renewed. The
    /// permits of a process that dies come back after at most this time. A process that is paused for longer loses its permits.
    ///
    /// A reload that changes it renews the permits of the process. Permits whose last renewal is longer ago than a shortened hold
    /// are lost. Each permit is renewed every third of its hold, so shorten the hold by less than half at a time.
    ///
    /// # Panics
    ///
    /// If the limit is of another algorithm, or the time is below 1 s, above 24 h or has a fraction of a microsecond.
    #[must_use]
    #[track_caller]
    pub const fn hold(self, hold: Duration) -> Self {
        let Some(Algorithm::Concurrency(limit)) = self.algorithm() else {
            panic!("only a limit of what runs at once has a hold: use `Limit::concurrent`")
        };
        let held = valid(limit.with_hold(hold));
        self.replaced(Algorithm::Concurrency(held))
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
    /// If there are none or more than 16; if a limit, a window or an active period is zero; if a duration is not a whole number
    /// of microseconds, or is above 71 years without being [`Tier::FOREVER`]; if a window slides with a limit above 4096.
    pub fn tiers(tiers: impl IntoIterator<Item = Tier>) -> Result<Self, LimitError> {
        Ok(Self::of(Algorithm::Tiers(Tiers::new(tiers)?)))
    }

    /// The key of the algorithm, or `None` for [`UNLIMITED`](Self::UNLIMITED) and [`BLOCKED`](Self::BLOCKED), which have no
    /// buckets.
    ///
    /// It distinguishes the kinds of limits. [`period`](Self::period), [`max_cost`](Self::max_cost) and
    /// [`most_within`](Self::most_within) answer for all kinds; the values of a limit are in its `Display` and serde forms.
    #[must_use]
    pub fn algorithm_key(&self) -> Option<AlgorithmKey> {
        self.algorithm().map(Algorithm::key)
    }

    /// Returns the state of each tier at an instant, lowest first; empty if the limit has no tiers. `state` is that of a bucket,
    /// from a [backend of your own](crate::backend::custom).
    #[must_use]
    pub fn tier_states(&self, state: Option<&State>, now: Timestamp) -> Vec<TierState> {
        let Some(Algorithm::Tiers(tiers)) = self.algorithm() else {
            return Vec::new();
        };
        let history = state.cloned().and_then(History::of_state);
        let history = history.unwrap_or_default();
        history.tiers(tiers, now.as_micros()).collect()
    }

    /// Returns the algorithm, if the limit has buckets.
    #[inline]
    pub(crate) const fn algorithm(&self) -> Option<&Algorithm> {
        match &self.0 {
            LimitKind::By(algorithm) => Some(algorithm),
            LimitKind::Unlimited | LimitKind::Blocked => None,
        }
    }

    /// Returns whether nothing passes.
    #[inline]
    pub(crate) const fn is_blocked(&self) -> bool {
        matches!(self.0, LimitKind::Blocked)
    }

    pub(crate) const fn of(algorithm: Algorithm) -> Self {
        Self(LimitKind::By(algorithm))
    }

    #[track_caller]
    const fn gcra(&self, otherwise: &'static str) -> Gcra {
        match self.algorithm() {
            Some(Algorithm::Gcra(gcra)) => *gcra,
            _ => panic!("{}", otherwise),
        }
    }

    /// Replaces the limit. A `const fn` may not drop one, so the old limit is forgotten, which has nothing to drop.
    const fn replaced(self, algorithm: Algorithm) -> Self {
        let _ = ManuallyDrop::new(self);
        Self::of(algorithm)
    }
}

/// Returns the value, or panics with a message that says what to change.
#[track_caller]
const fn valid<T: Copy>(checked: Result<T, InvalidValue>) -> T {
    match checked {
        Ok(valid) => valid,
        Err(invalid) => panic!("{}", invalid.message),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const DAY: Duration = Duration::from_secs(86_400);
    const MICRO: Duration = Duration::from_micros(1);
    /// 71 years.
    const LONGEST: Duration = Duration::from_micros(1 << 51);

    #[test]
    fn setters_keep_the_rest() {
        const LIMIT: Limit = Limit::per_minute(60)
            .max_wait(Duration::from_millis(1500))
            .burst(100);
        assert_eq!(
            LIMIT.to_string(),
            "60 per 1m0s, 100 at once, waiting up to 1.5s"
        );
        assert_eq!(LIMIT.line(), Some(Duration::from_millis(1500)));
        let plain = LIMIT.max_wait(Duration::ZERO);
        assert_eq!(plain, Limit::new(100, 60, 60 * SECOND).unwrap());
        assert_eq!(plain.line(), None);
        const HELD: Limit = Limit::concurrent(4).hold(Duration::from_secs(9));
        assert_eq!(HELD.to_string(), "4 at once, held for 9s");
        assert_eq!(HELD.hold(30 * SECOND), Limit::concurrent(4), "the default");
    }

    #[test]
    fn longest_times_are_limits() {
        let line = Limit::per(1, LONGEST - SECOND).max_wait(SECOND);
        assert_eq!(line.line(), Some(SECOND));
        assert_eq!(Limit::per(1, LONGEST).period(), Some(LONGEST));
        let held = Limit::concurrent(1).hold(DAY);
        assert_eq!(held.to_string(), "1 at once, held for 24h0m0s");
    }

    const NO_LINE: &str = "has a line to wait in: remove `max_wait`";
    const NO_BURST: &str = "only a limit per period has a burst";

    type MistakenLimit = fn() -> Limit;

    const PANICS: [(MistakenLimit, &str); 18] = [
        (|| Limit::per_second(0), "count is 0"),
        (|| Limit::per(1, Duration::ZERO), "period is 0"),
        (|| Limit::per_second(1).burst(0), "burst is 0"),
        (|| Limit::per_day(1).burst(u32::MAX), "lower the burst"),
        // These periods are a third of a microsecond too long, and 2⁶⁴ thirds too long.
        (
            || Limit::new(1, 3, 3 * LONGEST + MICRO).unwrap(),
            "lower the burst",
        ),
        (|| Limit::per(1, LONGEST * (1 << 13)), "lower the burst"),
        (|| Limit::window(5000, SECOND), "above 4096"),
        (|| Limit::quota(0, Per::Day), "quota is 0"),
        (|| Limit::concurrent(0), "concurrent is 0"),
        (|| Limit::concurrent(1).hold(Duration::ZERO), "1 s to 24 h"),
        (|| Limit::concurrent(1).hold(DAY + MICRO), "1 s to 24 h"),
        (
            || Limit::per_second(1).hold(SECOND),
            "use `Limit::concurrent`",
        ),
        (
            || Limit::per_second(1).max_wait(Duration::from_nanos(1)),
            "max_wait is not",
        ),
        (
            || Limit::per(1, LONGEST - SECOND).max_wait(SECOND + MICRO),
            "together",
        ),
        (|| Limit::concurrent(4).max_wait(SECOND), NO_LINE),
        (|| Limit::window(5, SECOND).max_wait(SECOND), NO_LINE),
        (|| Limit::BLOCKED.max_wait(SECOND), NO_LINE),
        (|| Limit::quota(5, Per::Day).burst(5), NO_BURST),
    ];

    #[test]
    fn invalid_limits_panic_with_the_remedy() {
        for (make, expected) in PANICS {
            let panic = catch_unwind(make).unwrap_err();
            let message = panic.downcast_ref::<&str>().copied();
            let message = message.or_else(|| panic.downcast_ref::<String>().map(|text| &**text));
            assert!(
                message.is_some_and(|text| text.contains(expected)),
                "{message:?}"
            );
        }
    }
}
