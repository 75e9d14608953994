//! The bounds of limits.

use std::time::Duration;

use super::limit::Limit;
use crate::algorithm::Algorithm;

impl Limit {
    /// The span of time that the limit is about: its period or window, of a calendar month the shortest, and of tiers the lowest
    /// one's window. Days have 24 hours here, in a time zone too. `None` if it has none, or an endless one.
    #[must_use]
    pub fn period(&self) -> Option<Duration> {
        self.algorithm()?.parameters().spans().period
    }

    /// The longest time for which a request waits [in line](Self::max_wait), if it can wait.
    #[must_use]
    pub fn line(&self) -> Option<Duration> {
        match self.algorithm()? {
            Algorithm::Gcra(gcra) => Some(gcra.max_wait()).filter(|wait| !wait.is_zero()),
            _ => None,
        }
    }

    /// Returns the highest cost that can ever pass; `None` for limits that allow or deny every cost.
    ///
    /// [Leases](crate::guide::leases) leave less than this to a single cost.
    #[must_use]
    pub fn max_cost(&self) -> Option<u32> {
        self.algorithm().map(Algorithm::capacity)
    }

    /// The most cost that one bucket admits within any span `[t, t + window)`; `None` if there is no bound.
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
    /// Some sequence of requests reaches the bound, with three exceptions. Tiers may admit less, because they do not
    /// grant from all of their tiers at once. An interval T that is not a whole number of microseconds may also admit
    /// less, and so may a quota in a time zone, where clocks do not change within each span.
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
            algorithm => algorithm?.parameters().most_within(window)?,
        };
        Some(u64::try_from(most).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{quota::Per, tiers::Tier};

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const MICRO: Duration = Duration::from_micros(1);

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ten_per_second_is_ten_per_second() {
        for (limit, secs) in [
            (Limit::per_second(10), 1),
            (Limit::per_minute(10), 60),
            (Limit::per_hour(10), 3600),
            (Limit::per_day(10), 86_400),
        ] {
            assert_eq!(limit, Limit::new(10, 10, secs * SECOND).unwrap());
        }
    }

    #[test]
    fn periods_and_costs() {
        let tiers = |window| Limit::tiers([Tier::new(5, window)]).unwrap();
        let day = 24 * 60 * 60 * SECOND;
        for (limit, period, cost) in [
            (Limit::per_hour(9).burst(3), Some(3600 * SECOND), Some(3)),
            (Limit::window(5, day), Some(day), Some(5)),
            (Limit::quota(7, Per::Day), Some(day), Some(7)),
            (Limit::quota(7, Per::Month), Some(28 * day), Some(7)),
            (
                Limit::quota(7, Per::first_use(SECOND)),
                Some(SECOND),
                Some(7),
            ),
            (Limit::concurrent(4), None, Some(4)),
            (tiers(SECOND), Some(SECOND), Some(5)),
            (tiers(Tier::FOREVER), None, Some(5)),
            (Limit::UNLIMITED, None, None),
            (Limit::BLOCKED, None, None),
        ] {
            assert_eq!(
                (limit.period(), limit.max_cost()),
                (period, cost),
                "{limit}"
            );
        }
    }

    #[test]
    fn bounds_of_each_algorithm() {
        let week = Limit::quota(10, Per::Week);
        let tiers = Limit::tiers([
            Tier::new(5, Duration::from_secs(1)),
            Tier::new(50, Duration::from_secs(5))
                .active(Duration::from_secs(5))
                .cooldown(Duration::from_secs(15)),
        ])
        .unwrap();
        for (limit, span, most) in [
            (Limit::per_day(1000), DAY, Some(1999)),
            (Limit::per_day(1000), DAY + MICRO, Some(2000)),
            (Limit::per_second(7).burst(3), SECOND, Some(9)),
            // The examples of the recipes.
            (Limit::per_second(100), SECOND, Some(199)),
            (Limit::per_second(100).burst(1), SECOND, Some(100)),
            (Limit::per_second(5), SECOND, Some(9)),
            (Limit::per_second(5).burst(1), SECOND, Some(5)),
            (Limit::per(5, 900 * SECOND), 900 * SECOND, Some(9)),
            (Limit::quota(100, Per::first_use(DAY)), DAY, Some(199)),
            (Limit::window(5, DAY), DAY, Some(5)),
            (
                Limit::window(5, DAY),
                DAY + Duration::from_nanos(1),
                Some(10),
            ),
            (Limit::quota(1000, Per::Day), MICRO, Some(1000)),
            (Limit::quota(1000, Per::Day), 2 * MICRO, Some(2000)),
            (Limit::quota(1000, Per::Day), DAY + MICRO, Some(2000)),
            (Limit::quota(1000, Per::Day), DAY + 2 * MICRO, Some(3000)),
            (week, 7 * DAY, Some(20)),
            (Limit::quota(9, Per::first_use(DAY)), DAY, Some(17)),
            (Limit::quota(9, Per::first_use(DAY)), MICRO, Some(9)),
            // The span is February, with a microsecond of each adjacent month.
            (Limit::quota(1, Per::Month), 28 * DAY + MICRO, Some(2)),
            (Limit::quota(1, Per::Month), 28 * DAY + 2 * MICRO, Some(3)),
            (tiers.clone(), Duration::from_secs(1), Some(5 + 50)),
            (
                tiers.clone(),
                15 * Duration::from_secs(1),
                Some(15 * 5 + 50),
            ),
            (
                tiers.clone(),
                Duration::from_secs(15) + 2 * MICRO,
                Some(75 + 100),
            ),
            (tiers, Duration::from_secs(35) + 3 * MICRO, Some(175 + 150)),
            (Limit::concurrent(4), DAY, None),
            (Limit::UNLIMITED, DAY, None),
            (Limit::BLOCKED, DAY, Some(0)),
            (Limit::per_day(1), Duration::ZERO, Some(0)),
        ] {
            assert_eq!(limit.most_within(span), most, "{limit} within {span:?}");
        }
    }
}
