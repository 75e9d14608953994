//! What a quota admits: all of it in each period that a span touches.

use std::time::Duration;

use super::{
    per::{CalendarUnit, Per},
    quota::Quota,
};
use crate::{
    algorithm::bound::{Asked, Bounded, NoTokenBucket, NotPermitted, Purpose, ceil_micros},
    clock::Timestamp,
};

pub(crate) const NO_TOKEN_BUCKET: NoTokenBucket = NoTokenBucket {
    burst: "a quota has no burst: set the quota",
    line: "windows and quotas have no line to wait in: use burst, count and period",
};

impl Bounded for Quota {
    const MEASURE: &'static str = "quota";

    #[inline]
    fn max_cost(&self) -> u32 {
        self.quota()
    }

    fn most_within(&self, span: Duration) -> Option<u128> {
        let us = ceil_micros(span);
        let most = u128::from(self.quota());
        let per = self.per();
        let length = u128::from(per.longest());
        Some(match per.calendar_unit() {
            None => {
                let from_start = most * us.div_ceil(length);
                from_start.max(most - 1 + most * (us - 1).div_ceil(length))
            }
            Some((CalendarUnit::Month, _)) => most * months_touched(us),
            Some(_) => most * periods_touched(us, |whole| whole * length),
        })
    }

    fn with_most(&self, most: u32) -> Option<Self> {
        Self::new(most, self.per()).ok()
    }

    fn permits(&self, asked: Asked) -> Result<bool, NotPermitted> {
        asked.whole((asked.purpose == Purpose::Take).then_some(self.quota()))
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
