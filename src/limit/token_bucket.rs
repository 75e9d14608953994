//! Token buckets: burst, count and period.

use std::{mem::ManuallyDrop, time::Duration};

use super::limit::Limit;
use crate::{
    algorithm::NoTokenBucket,
    gcra::{Gcra, GcraError},
};

impl Limit {
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
        let gcra = match self.token_bucket() {
            Some(Ok(gcra)) => gcra,
            Some(Err(none)) => panic!("{}", none.burst),
            None => panic!("there is nothing that a burst could be of"),
        };
        // The limit has nothing to drop, but a `const fn` may not drop it.
        let _ = ManuallyDrop::new(self);
        match Gcra::checked(burst, gcra.count(), gcra.period()) {
            Ok(other) => Self::built(other.waiting(gcra.max_wait())),
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
    /// On a [concurrency limit](Self::concurrent), requests wait in order of arrival until permits come back. Only a
    /// [`MemoryBackend`](crate::MemoryBackend) has this line: [`Limiter::try_new`](crate::Limiter::try_new) rejects such a
    /// limit on any other backend. The [guide](crate::guide::waiting#waiting-for-permits) says which calls wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    ///
    /// // Four at once. Further requests wait for up to two seconds.
    /// let limit = Limit::concurrent(4).max_wait(Duration::from_secs(2));
    /// assert_eq!(limit.to_string(), "4 at once, waiting up to 2s");
    /// ```
    ///
    /// For values that are not constants, use [`Gcra::with_max_wait`] or
    /// [`Concurrency::with_max_wait`](crate::concurrency::Concurrency::with_max_wait), and then `Limit::from`.
    ///
    /// # Panics
    ///
    /// If the wait has a fraction of a microsecond, or is longer than 71 years, together with the time in which an empty
    /// bucket fills; or if the limit is a window or a quota, or has tiers, which have no line, or none of all these.
    #[must_use]
    #[track_caller]
    pub const fn max_wait(self, max_wait: Duration) -> Self {
        if let Some(limit) = self.concurrency() {
            let waits = limit.checked_wait(max_wait);
            let _ = ManuallyDrop::new(self);
            return Self::permits(waits);
        }
        let gcra = match self.token_bucket() {
            Some(Ok(gcra)) => gcra,
            Some(Err(none)) => panic!("{}", none.line),
            None => panic!("there is nothing to wait for: use a limit"),
        };
        let _ = ManuallyDrop::new(self);
        Self::built(gcra.waiting(max_wait))
    }

    const fn token_bucket(&self) -> Option<Result<Gcra, NoTokenBucket>> {
        match self.algorithm() {
            Some(algorithm) => Some(algorithm.token_bucket()),
            None => None,
        }
    }

    #[track_caller]
    const fn checked(burst: u32, count: u32, period: Duration) -> Self {
        Self::built(Gcra::checked(burst, count, period))
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{concurrency::Concurrency, quota::Per, tiers::Tier};

    #[test]
    fn ten_per_second_is_ten_per_second() {
        for (limit, secs) in [
            (Limit::per_second(10), 1),
            (Limit::per_minute(10), 60),
            (Limit::per_hour(10), 3600),
            (Limit::per_day(10), 86_400),
        ] {
            assert_eq!(
                limit,
                Limit::new(10, 10, Duration::from_secs(secs)).unwrap()
            );
        }
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

    type Make = fn(Duration) -> Limit;

    const PANICS: [(Make, &str); 9] = [
        (
            |second| {
                Limit::tiers([Tier::new(5, second)])
                    .unwrap()
                    .max_wait(second)
            },
            "tiers have no line",
        ),
        (
            |second| Limit::window(5, second).max_wait(second),
            "windows and quotas have no line",
        ),
        (
            |second| Limit::quota(5, Per::Day).max_wait(second),
            "windows and quotas have no line",
        ),
        (
            |second| Limit::UNLIMITED.max_wait(second),
            "there is nothing to wait for",
        ),
        (
            |second| Limit::BLOCKED.max_wait(second),
            "there is nothing to wait for",
        ),
        (
            |_| Limit::concurrent(4).max_wait(Duration::from_nanos(1500)),
            "a wait is a whole number of microseconds",
        ),
        (
            |_| Limit::concurrent(4).max_wait(Duration::from_secs(1 << 40)),
            "a wait is at most 71 years",
        ),
        (|_| Limit::per_second(0), "a count of 0 lets nothing pass"),
        (
            |_| Limit::per_second(1).burst(0),
            "a burst of 0 lets nothing pass",
        ),
    ];

    #[test]
    fn what_makes_no_limit_panics_with_the_reason() {
        for (make, expected) in PANICS {
            let made = std::panic::catch_unwind(|| make(Duration::from_secs(1)));
            let panic = made.unwrap_err();
            let message = panic.downcast_ref::<&str>().copied();
            let message = message.or_else(|| panic.downcast_ref::<String>().map(|text| &**text));
            assert!(
                message.is_some_and(|text| text.contains(expected)),
                "{message:?}"
            );
        }
    }

    #[test]
    fn concurrency_limit_has_a_line_and_a_hold_in_any_order() {
        const LIMIT: Limit = Limit::concurrent(4)
            .max_wait(Duration::from_millis(1500))
            .hold(Duration::from_secs(9));
        let four = Concurrency::new(4).unwrap();
        let four = four.with_hold(Duration::from_secs(9)).unwrap();
        let waits = four.with_max_wait(Duration::from_millis(1500)).unwrap();
        assert_eq!(LIMIT, waits.into());
        assert_eq!(LIMIT.max_wait(Duration::ZERO), four.into());
        let held = Limit::concurrent(4).hold(Duration::from_secs(9));
        assert_eq!(held.max_wait(Duration::from_millis(1500)), LIMIT);
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
            assert_eq!(gcra.waiting(wait), Err(error), "{wait:?}");
        }
    }
}
