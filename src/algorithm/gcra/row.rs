//! A TAT in a row: its microseconds in the lower 53 bits, the scale of its limit above them, and its fraction.

use crate::algorithm::{
    row_value::RowValue,
    ticks::{MAX_TICKS_US, Tat, Ticks},
};

const TAT_BITS: u32 = 53;
const TAT_MASK: u64 = (1 << TAT_BITS) - 1;

#[inline]
pub(crate) fn value(tat: Tat, scale: Scale) -> RowValue {
    RowValue {
        bits: u64::from(scale.0) << TAT_BITS | tat.storable().us,
        low: tat.frac,
    }
}

/// Returns the TAT of a bucket.
#[inline]
pub(crate) fn tat(value: RowValue) -> Tat {
    Tat {
        us: value.bits & TAT_MASK,
        frac: value.low,
    }
}

#[inline]
pub(in crate::algorithm) fn is_full(value: RowValue, now: u64) -> bool {
    tat(value) <= Tat::from_micros(now)
}

/// Returns whether the bucket was already full before this very instant.
#[inline]
pub(in crate::algorithm) fn was_full(value: RowValue, now: u64) -> bool {
    tat(value) < Tat::from_micros(now)
}

pub(in crate::algorithm) fn debt(value: RowValue, now: u64) -> u64 {
    let us = tat(value).us.saturating_sub(now);
    (us << 11) / scale(value).micros()
}

fn scale(value: RowValue) -> Scale {
    Scale((value.bits >> TAT_BITS) as u16)
}

/// A tolerance in eleven bits, exact to one part in 32: the power of two, then five bits below
/// the leading one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scale(u16);

impl Scale {
    const MANTISSA_BITS: u32 = 5;

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the power of two is at most 51, which leaves eleven bits"
    )]
    pub(crate) const fn new(tolerance: Ticks) -> Self {
        let us = match tolerance.us {
            us if us > MAX_TICKS_US => MAX_TICKS_US | 1,
            us => us | 1,
        };
        let power = us.ilog2();
        let mantissa = (us << (63 - power) >> (63 - Self::MANTISSA_BITS)) & 31;
        Self((power << Self::MANTISSA_BITS) as u16 | mantissa as u16)
    }

    /// Returns the microseconds, at least 1.
    fn micros(&self) -> u64 {
        let power = self.0 >> Self::MANTISSA_BITS;
        let parts = u128::from(32 + (self.0 & 31)) << power;
        u64::try_from(parts >> Self::MANTISSA_BITS).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_767_225_600_000_000;

    #[test]
    fn extreme_tats_and_tolerances_fit_a_bucket() {
        for us in [2, 31, 32, 33, 1_000_000, (1 << 51) - 1, 1 << 51] {
            let about = Scale::new(Ticks::from_micros(us)).micros();
            assert!(about.abs_diff(us) <= 1 + us / 32, "{us}: {about}");
            let latest = Tat {
                us: (1 << 53) - 1,
                frac: u32::MAX - 1,
            };
            let stored = value(latest, Scale::new(Ticks::from_micros(us)));
            assert_eq!(tat(stored), latest);
            assert!(debt(stored, NOW) > 0);
        }
        let fraction = Tat { us: 0, frac: 1 };
        assert_eq!(
            tat(value(fraction, Scale::new(Ticks { us: 0, frac: 1 }))),
            fraction
        );
    }

    #[test]
    fn tat_beyond_53_bits_is_the_greatest_and_leaves_the_scale_alone() {
        for us in [1 << 53, 1 << 58, u64::MAX] {
            for tolerance in [0, 1, 1_000_000, 1 << 51, u64::MAX] {
                let tolerance = Scale::new(Ticks::from_micros(tolerance));
                let stored = value(Tat::from_micros(us), tolerance);
                assert_eq!(tat(stored), Tat::from_micros((1 << 53) - 1));
                assert_eq!(scale(stored), tolerance);
                assert!(debt(stored, NOW) > 0);
            }
        }
    }
}
