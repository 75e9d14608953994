//! The state of a bucket in 12 bytes of a row: a GCRA bucket, or one with a quota.

use crate::{
    clock::Timestamp,
    gcra::{MAX_TICKS_US, Tat, Ticks},
    quota::{CalendarUnit, Quota, Usage},
};

/// The state of a bucket. The default is a full bucket, which need not be stored.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RowValue {
    /// A TAT's microseconds in the lower 53 bits and a [`Scale`] above them. From [`QUOTA`] on, the start of a period in
    /// the lower 52 bits, and a [`Period`] and a level above them.
    pub(super) bits: u64,
    /// A TAT's fraction, or the used part of a quota.
    pub(super) low: u32,
}

const TAT_BITS: u32 = 53;
const TAT_MASK: u64 = (1 << TAT_BITS) - 1;
const START_BITS: u32 = 52;
const START_MASK: u64 = (1 << START_BITS) - 1;

/// The least bits with a quota: above those with the longest tolerance.
const QUOTA: u64 = 1640 << TAT_BITS;
/// The number of levels that approximate the used part of a quota.
const LEVELS: u64 = 8;

impl RowValue {
    pub(super) const FULL: Self = Self { bits: 0, low: 0 };

    #[inline]
    pub(super) fn gcra(tat: Tat, tolerance: Ticks) -> Self {
        let scale = u64::from(Scale::new(tolerance).0);
        Self {
            bits: scale << TAT_BITS | tat.storable().us,
            low: tat.frac,
        }
    }

    #[inline]
    pub(super) fn quota(quota: &Quota, usage: Usage) -> Self {
        if usage.used == 0 {
            return Self::FULL;
        }
        let above = Period::new(quota).0 * LEVELS + level(quota, usage.used);
        let start = usage.start_us.min(START_MASK);
        Self {
            bits: QUOTA + (above << START_BITS | start),
            low: usage.used,
        }
    }

    /// Returns the TAT of a GCRA bucket.
    #[inline]
    pub(super) fn tat(self) -> Tat {
        Tat {
            us: self.bits & TAT_MASK,
            frac: self.low,
        }
    }

    /// Returns the usage of a quota.
    #[inline]
    pub(super) fn usage(self) -> Usage {
        Usage {
            start_us: self.bits & START_MASK,
            used: self.low,
        }
    }

    /// Returns the value to store: a bucket that is full again is like an unused one. One that becomes full at this very
    /// instant is kept, because the clock may step back.
    #[inline]
    pub(super) fn unless_full(self, now: Timestamp) -> Self {
        let is_full_just_now = self.bits < QUOTA && self.tat() == Tat::from_micros(now.as_micros());
        match self.is_full(now) && !is_full_just_now {
            true => Self::FULL,
            false => self,
        }
    }

    /// Returns whether nothing is lost if the bucket is forgotten.
    #[inline]
    pub(super) fn is_full(self, now: Timestamp) -> bool {
        match self.bits.checked_sub(QUOTA) {
            None => self.tat() <= Tat::from_micros(now.as_micros()),
            Some(bits) => {
                let period = Period((bits >> START_BITS) / LEVELS);
                (bits & START_MASK).saturating_add(period.micros()) <= now.as_micros()
            }
        }
    }

    /// Returns how much of the bucket is used at `now`: 0 if it is full, 2¹¹ if it is empty.
    pub(super) fn debt(self, now: Timestamp) -> u64 {
        match self.bits.checked_sub(QUOTA) {
            None => {
                let us = self.tat().us.saturating_sub(now.as_micros());
                (us << 11) / self.scale().micros()
            }
            Some(_) if self.is_full(now) => 0,
            Some(bits) => match (bits >> START_BITS) % LEVELS {
                level if level < LEVELS - 1 => (2 * level + 1) * (1 << 10) / (LEVELS - 1),
                _ => 1 << 11,
            },
        }
    }

    fn scale(self) -> Scale {
        Scale((self.bits >> TAT_BITS) as u16)
    }
}

/// Returns the used sevenths of a quota, at most seven. A division would take longer than all the comparisons.
#[inline]
fn level(quota: &Quota, used: u32) -> u64 {
    let (used, whole) = (u64::from(used), u64::from(quota.quota()));
    let steps = (1..LEVELS).map(|step| u64::from(used * (LEVELS - 1) >= whole * step));
    steps.sum()
}

/// A tolerance in eleven bits, exact to one part in 32: the power of two, then five bits below
/// the leading one.
struct Scale(u16);

impl Scale {
    const MANTISSA_BITS: u32 = 5;

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the power of two is at most 51, which leaves eleven bits"
    )]
    #[inline]
    fn new(tolerance: Ticks) -> Self {
        let us = tolerance.us.min(MAX_TICKS_US) | 1;
        let power = us.ilog2();
        let mantissa = (us << (63 - power) >> (63 - Self::MANTISSA_BITS)) & 31;
        Self((u64::from(power) << Self::MANTISSA_BITS | mantissa) as u16)
    }

    /// Returns the microseconds, at least 1.
    fn micros(&self) -> u64 {
        let power = self.0 >> Self::MANTISSA_BITS;
        let parts = u128::from(32 + (self.0 & 31)) << power;
        u64::try_from(parts >> Self::MANTISSA_BITS).unwrap_or(u64::MAX)
    }
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
    use crate::quota::{Per, UtcOffset};

    const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

    #[test]
    fn extreme_tats_and_tolerances_fit_a_bucket() {
        for us in [2, 31, 32, 33, 1_000_000, (1 << 51) - 1, 1 << 51] {
            let about = Scale::new(Ticks::from_micros(us)).micros();
            assert!(about.abs_diff(us) <= 1 + us / 32, "{us}: {about}");
            let tat = Tat {
                us: (1 << 53) - 1,
                frac: u32::MAX - 1,
            };
            let value = RowValue::gcra(tat, Ticks::from_micros(us));
            assert_eq!(value.tat(), tat);
            assert!(value.debt(NOW) > 0);
        }
        let fraction = Tat { us: 0, frac: 1 };
        let value = RowValue::gcra(fraction, Ticks { us: 0, frac: 1 });
        assert_eq!(value.tat(), fraction);
    }

    #[test]
    fn tat_beyond_53_bits_is_the_greatest_and_leaves_the_scale_alone() {
        for us in [1 << 53, 1 << 58, u64::MAX] {
            for tolerance in [0, 1, 1_000_000, 1 << 51, u64::MAX] {
                let tolerance = Ticks::from_micros(tolerance);
                let value = RowValue::gcra(Tat::from_micros(us), tolerance);
                assert_eq!(value.tat(), Tat::from_micros((1 << 53) - 1));
                assert_eq!(value.scale().0, Scale::new(tolerance).0);
                assert!(value.debt(NOW) > 0);
            }
        }
    }

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
                    let value = RowValue::quota(&quota, usage);
                    assert_eq!(value.usage(), usage);
                    if used == 0 {
                        continue;
                    }
                    let end = quota.lapses_at(usage);
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
        assert_eq!(RowValue::quota(&quota, usage).usage(), usage);
    }

    #[test]
    fn level_grows_with_what_is_used() {
        let quota = Quota::new(100, Per::Day).unwrap();
        let debts = (1..=101).map(|used| {
            let usage = quota.debit(Usage::NOTHING, NOW.as_micros(), used);
            RowValue::quota(&quota, usage).debt(NOW)
        });
        let debts: Vec<_> = debts.collect();
        assert!(debts.is_sorted() && debts[0] > 0, "{debts:?}");
        assert_eq!(debts.iter().filter(|debt| **debt == 1 << 11).count(), 2);
    }
}
