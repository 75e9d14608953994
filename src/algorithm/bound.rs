//! The most that a limit admits within a span of time, wherever the span starts.

use std::{iter, time::Duration};

use super::{
    Algorithm,
    gcra::Gcra,
    quota::{CalendarUnit, Per, Quota},
    tiers::{Tier, Tiers},
    window::Window,
};
use crate::clock::Timestamp;

impl Algorithm {
    /// Returns the most cost that one bucket admits within a span `[t, t + span)`, which is not empty; `None` if nothing
    /// bounds it.
    pub(crate) fn most_within(&self, span: Duration) -> Option<u128> {
        match self {
            Self::Gcra(gcra) => Some(gcra.most_within(span)),
            Self::Window(window) => Some(window.most_within(span)),
            Self::Quota(quota) => Some(quota.most_within(span)),
            Self::Tiers(tiers) => Some(tiers.most_within(span)),
            // Work that ends makes room for the next.
            Self::Concurrency(_) => None,
        }
    }
}

impl Gcra {
    /// burst + ⌈span / T⌉ − 1
    fn most_within(&self, span: Duration) -> u128 {
        let intervals = span.as_nanos() * u128::from(self.count());
        u128::from(self.burst()) + intervals.div_ceil(self.period().as_nanos()) - 1
    }
}

impl Window {
    /// The limit in any span of its length.
    fn most_within(&self, span: Duration) -> u128 {
        let windows = ceil_micros(span).div_ceil(self.window().as_micros());
        u128::from(self.limit()) * windows
    }
}

impl Quota {
    /// All of it in each period that the span touches.
    fn most_within(&self, span: Duration) -> u128 {
        let (us, quota) = (ceil_micros(span), u128::from(self.quota()));
        let length = self.per().longest().as_micros();
        match self.per().calendar_unit() {
            Some((CalendarUnit::Month, _)) => quota * months_touched(us),
            Some(_) => quota * periods_touched(us, us.saturating_sub(2) / length),
            None => {
                let from_start = quota * us.div_ceil(length);
                from_start.max(quota - 1 + quota * (us - 1).div_ceil(length))
            }
        }
    }
}

/// Returns the most periods that `us` consecutive microseconds can touch, of which at most `whole` are whole: one microsecond of
/// each outer period is enough.
fn periods_touched(us: u128, whole: u128) -> u128 {
    if us < 2 { us } else { 2 + whole }
}

fn months_touched(us: u128) -> u128 {
    let first = Some(Per::Month.end(0));
    let ends = iter::successors(first, |end| Some(Per::Month.end(*end)));
    let ends: Vec<_> = ends
        .take_while(|end| *end < Timestamp::END.as_micros())
        .collect();
    let fits = |whole: &usize| {
        let mut spans = ends.iter().zip(&ends[*whole..]);
        spans.any(|(start, end)| u128::from(end - start) + 2 <= us)
    };
    let whole = (1..ends.len()).take_while(fits).count();
    periods_touched(us, whole as u128)
}

impl Tiers {
    /// The sum over all tiers, each entered as often as it can be.
    fn most_within(&self, span: Duration) -> u128 {
        let us = ceil_micros(span);
        let tiers = self.iter().enumerate();
        tiers.map(|(i, tier)| of_tier(tier, i == 0, us)).sum()
    }
}

/// On each entry, a tier grants its limit in each window that starts while it is active. The lowest tier keeps its window
/// when it is entered again.
fn of_tier(tier: Tier, is_lowest: bool, us: u128) -> u128 {
    const ENDLESS: u128 = u128::MAX >> 1;
    let micros = |span: Duration, more| match span {
        Tier::FOREVER => ENDLESS,
        span => span.as_micros() + more,
    };
    // A unit counts, and a tier is active, for a microsecond longer than it says.
    let (window, active) = (micros(tier.window, 1), micros(tier.active, 1));
    let by_window = u128::from(tier.limit) * us.div_ceil(window);
    let gap = micros(tier.cooldown, 0);
    // The tier can be entered before the span begins. The first microsecond of the span is then the last one of the
    // tier.
    let entered = match us.checked_sub(gap + 2) {
        None => 1,
        Some(more) => 2 + more / (active + gap),
    };
    let by_entries = entered * u128::from(tier.limit) * us.min(active).div_ceil(window);
    match is_lowest {
        true => by_window.min(by_entries),
        false => by_entries,
    }
}

/// Returns the microseconds of a span, rounded up.
const fn ceil_micros(span: Duration) -> u128 {
    span.as_nanos().div_ceil(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limit;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const MICRO: Duration = Duration::from_micros(1);

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
            (
                Limit::per_second(7).burst(3),
                Duration::from_secs(1),
                Some(9),
            ),
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
            // February, and a microsecond of both its neighbours.
            (Limit::quota(1, Per::Month), 28 * DAY + MICRO, Some(2)),
            (Limit::quota(1, Per::Month), 28 * DAY + 2 * MICRO, Some(3)),
            (tiers.clone(), Duration::from_secs(1), Some(5 + 50)),
            (
                tiers.clone(),
                15 * Duration::from_secs(1),
                Some(15 * 5 + 50),
            ),
            (tiers, Duration::from_secs(15) + 2 * MICRO, Some(75 + 100)),
            (Limit::concurrent(4), DAY, None),
            (Limit::UNLIMITED, DAY, None),
            (Limit::BLOCKED, DAY, Some(0)),
            (Limit::per_day(1), Duration::ZERO, Some(0)),
        ] {
            assert_eq!(limit.most_within(span), most, "{limit} within {span:?}");
        }
    }
}
