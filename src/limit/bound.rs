//! The bound on the requests that a limit admits within a span of time.

use std::time::Duration;

use super::limit::Limit;
use crate::{
    algorithm::NEVER,
    clock::Timestamp,
    gcra::Gcra,
    quota::{CalendarUnit, Per, Quota},
    tiers::{Span, Tiers},
    transaction::Algorithm,
    window::Window,
};

impl Limit {
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
        let Some(algorithm) = self.algorithm() else {
            let is_open = !self.is_blocked() && !window.is_zero();
            return if is_open { u64::MAX } else { 0 };
        };
        if window.is_zero() {
            return 0;
        }
        let us = window.as_nanos().div_ceil(1000);
        let most = match algorithm {
            Algorithm::Gcra(gcra) => of_gcra(gcra, window),
            Algorithm::Window(window) => of_window(window, us),
            Algorithm::Quota(quota) => of_quota(quota, us),
            Algorithm::Tiers(tiers) => of_tiers(tiers, us),
        };
        u64::try_from(most).unwrap_or(u64::MAX)
    }
}

fn of_gcra(gcra: &Gcra, window: Duration) -> u128 {
    let intervals =
        (window.as_nanos() * u128::from(gcra.count())).div_ceil(gcra.period().as_nanos());
    u128::from(gcra.burst()) + intervals - 1
}

fn of_window(window: &Window, us: u128) -> u128 {
    u128::from(window.limit()) * us.div_ceil(window.window().as_micros())
}

fn of_quota(quota: &Quota, us: u128) -> u128 {
    let most = u128::from(quota.quota());
    let per = quota.per();
    let length = u128::from(per.longest());
    match per.calendar_unit() {
        None => {
            let from_start = most * us.div_ceil(length);
            from_start.max(most - 1 + most * (us - 1).div_ceil(length))
        }
        Some((CalendarUnit::Month, _)) => most * months_touched(us),
        Some(_) => most * periods_touched(us, |whole| whole * length),
    }
}

/// Returns the most periods that `us` consecutive microseconds can touch. `span(n)` is the least length of `n` whole
/// periods.
///
/// The inner periods are whole, and one microsecond of each outer period is enough.
fn periods_touched(us: u128, span: impl Fn(u128) -> u128) -> u128 {
    if us < 2 {
        return us;
    }
    let (mut low, mut high) = (0, us);
    while low < high {
        let middle = high - (high - low) / 2;
        match span(middle) + 2 <= us {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    low + 2
}

fn months_touched(us: u128) -> u128 {
    let mut starts = vec![0];
    while let Some(start) = starts
        .last()
        .filter(|start| **start < Timestamp::END.as_micros())
    {
        starts.push(Per::Month.end(*start));
    }
    periods_touched(us, |whole| {
        let whole = usize::try_from(whole).unwrap_or(usize::MAX);
        let spans = starts.iter().zip(starts.iter().skip(whole));
        let shortest = spans.map(|(start, end)| end - start).min();
        shortest.map_or(u128::MAX >> 1, u128::from)
    })
}

fn of_tiers(tiers: &Tiers, us: u128) -> u128 {
    let spans = tiers.spans().iter().enumerate();
    spans.map(|(i, span)| of_tier(span, i == 0, us)).sum()
}

/// On each entry, a tier grants its limit in each window that starts while it is active. The lowest
/// tier keeps its window when it is entered again.
fn of_tier(span: &Span, is_lowest: bool, us: u128) -> u128 {
    let closed = |us: u64| match us {
        NEVER => u128::MAX >> 1,
        us => u128::from(us) + 1,
    };
    let limit = u128::from(span.limit);
    let (window, active) = (closed(span.window), closed(span.active));
    let by_window = limit * us.div_ceil(window);
    let between = match span.cooldown {
        NEVER => u128::MAX >> 1,
        cooldown => active + u128::from(cooldown),
    };
    // The tier can be entered before the span begins. The first microsecond of the span is then the last one of the
    // tier.
    let gap = between - active;
    let entered = match us.checked_sub(gap + 2) {
        None => 1,
        Some(more) => 2 + more / between,
    };
    let by_entries = entered * limit * us.min(active).div_ceil(window);
    match is_lowest {
        true => by_window.min(by_entries),
        false => by_entries,
    }
}
