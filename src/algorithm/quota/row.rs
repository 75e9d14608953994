//! The usage of a quota in a row: the start of its period in the lower 52 bits, the period and a level above them, and the
//! used part.

use super::{
    per::CalendarUnit,
    quota::{Quota, Usage},
};
use crate::algorithm::row_value::{EMPTY, QUOTA, RowValue};

const START_BITS: u32 = 52;
const START_MASK: u64 = (1 << START_BITS) - 1;
/// The number of levels that approximate the used part of a quota.
const LEVELS: u64 = 8;

#[inline]
pub(crate) fn value(quota: &Quota, usage: Usage) -> RowValue {
    if usage.used == 0 {
        return RowValue::FULL;
    }
    let above = Period::new(quota).0 * LEVELS + level(quota, usage.used);
    let start = usage.start_us.min(START_MASK);
    RowValue {
        bits: QUOTA + (above << START_BITS | start),
        low: usage.used,
    }
}

/// Returns the usage of a quota.
#[inline]
pub(crate) fn usage(value: RowValue) -> Usage {
    Usage {
        start_us: value.bits & START_MASK,
        used: value.low,
    }
}

/// Returns whether the period has ended. `bits` are those above [`QUOTA`].
#[inline]
pub(in crate::algorithm) fn is_full(bits: u64, now: u64) -> bool {
    let period = Period((bits >> START_BITS) / LEVELS);
    (bits & START_MASK).saturating_add(period.micros()) <= now
}

pub(in crate::algorithm) fn debt(bits: u64, now: u64) -> u64 {
    if is_full(bits, now) {
        return 0;
    }
    match (bits >> START_BITS) % LEVELS {
        level if level < LEVELS - 1 => (2 * level + 1) * (EMPTY / 2) / (LEVELS - 1),
        _ => EMPTY,
    }
}

/// Returns the used sevenths of a quota, at most seven. A division would take longer than all the comparisons.
#[inline]
fn level(quota: &Quota, used: u32) -> u64 {
    let (used, whole) = (u64::from(used), u64::from(quota.quota()));
    let steps = (1..LEVELS).map(|step| u64::from(used * (LEVELS - 1) >= whole * step));
    steps.sum()
}

/// The longest that a period takes, below 102: a calendar unit; or a power of two, or one and a half of it, that is no
/// shorter.
struct Period(u64);

impl Period {
    const UNITS: [CalendarUnit; 4] = [
        CalendarUnit::Hour,
        CalendarUnit::Day,
        CalendarUnit::Week,
        CalendarUnit::Month,
    ];
    const LOWEST_POWER: u32 = 3;

    #[inline]
    fn new(quota: &Quota) -> Self {
        match quota.per().calendar_unit() {
            Some((CalendarUnit::Hour, _)) => Self(0),
            Some((CalendarUnit::Day, _)) => Self(1),
            Some((CalendarUnit::Week, _)) => Self(2),
            Some((CalendarUnit::Month, _)) => Self(3),
            None => Self::at_least(quota.per().longest()),
        }
    }

    fn at_least(us: u64) -> Self {
        let power = us.max(1 << Self::LOWEST_POWER).ilog2();
        let steps = match us {
            us if us <= 1 << power => 0,
            us if us <= 3 << (power - 1) => 1,
            _ => 2,
        };
        Self(4 + 2 * u64::from(power - Self::LOWEST_POWER) + steps)
    }

    fn micros(&self) -> u64 {
        match (self.0, self.0.checked_sub(4)) {
            (_, Some(steps)) => (2 + steps % 2) << (u64::from(Self::LOWEST_POWER) - 1 + steps / 2),
            (unit, None) => Self::UNITS[(unit % 4) as usize].longest(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        algorithm::counting::Counting,
        clock::Timestamp,
        quota::{Per, UtcOffset},
    };

    const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

    fn periods() -> impl Iterator<Item = Per> {
        let calendar = [Per::Hour, Per::Day, Per::Week, Per::Month];
        let offsets = [-1439, 0, 1439].map(UtcOffset::minutes);
        let calendar = calendar.into_iter();
        let calendar = calendar.flat_map(move |per| offsets.map(|offset| per.at_offset(offset)));
        let lengths = (0..=51).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]);
        let lengths = lengths.chain((1..=51).map(|power| 3 << power >> 1));
        let lengths = lengths.filter(|us| (1..=1 << 51).contains(us));
        calendar.chain(lengths.map(|us| Per::first_use(Duration::from_micros(us))))
    }

    #[test]
    fn every_quota_fits_a_bucket_which_outlives_its_period_by_half_of_it_at_most() {
        for per in periods() {
            for size in [1, 2, 7, 1000, u32::MAX] {
                let quota = Quota::new(size, per).unwrap();
                for used in [1, size / 2, size, u32::MAX] {
                    let usage = quota.debit(Usage::NOTHING, NOW.as_micros(), used);
                    let value = super::value(&quota, usage);
                    assert_eq!(super::usage(value), usage);
                    if used == 0 {
                        continue;
                    }
                    let end = quota.lapses_at(&usage);
                    assert!(!value.is_full(NOW) && !value.is_full(Timestamp::from_micros(end - 1)));
                    let late = end + (per.longest() / 2).max(8) + 3 * 86_400_000_000;
                    assert!(value.is_full(Timestamp::from_micros(late)), "{per:?}");
                    let is_empty = value.debt(NOW) == 1 << 11;
                    assert_eq!(is_empty, used >= size, "{used} of {size}");
                }
            }
        }
        let quota = Quota::new(1, Per::first_use(Duration::from_micros(1 << 51))).unwrap();
        let usage = Usage {
            start_us: (1 << 52) - 1,
            used: u32::MAX,
        };
        assert_eq!(super::usage(value(&quota, usage)), usage);
    }

    #[test]
    fn level_grows_with_what_is_used() {
        let quota = Quota::new(100, Per::Day).unwrap();
        let debts = (1..=101).map(|used| {
            let usage = quota.debit(Usage::NOTHING, NOW.as_micros(), used);
            value(&quota, usage).debt(NOW)
        });
        let debts: Vec<_> = debts.collect();
        assert!(debts.is_sorted() && debts[0] > 0, "{debts:?}");
        assert_eq!(debts.iter().filter(|debt| **debt == 1 << 11).count(), 2);
    }
}
