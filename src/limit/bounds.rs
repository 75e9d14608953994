//! What a limit admits.

use std::time::Duration;

use super::limit::Limit;
use crate::algorithm::{Algorithm, tiers::Tier};

impl Limit {
    /// The span of time that the limit is about: its period or window, of a calendar month the shortest, and of tiers the lowest
    /// one's window. `None` if it has none, or an endless one.
    #[must_use]
    pub fn period(&self) -> Option<Duration> {
        match self.algorithm()? {
            Algorithm::Gcra(gcra) => Some(gcra.period()),
            Algorithm::Window(window) => Some(window.window()),
            Algorithm::Quota(quota) => Some(quota.per().shortest()),
            Algorithm::Tiers(tiers) => {
                let window = tiers.iter().next()?.window;
                (window != Tier::FOREVER).then_some(window)
            }
            Algorithm::Concurrency(_) => None,
        }
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
}
