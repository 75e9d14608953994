//! What a row stores of a bucket.

use crate::{
    clock::Timestamp,
    gcra::{Tat, Ticks},
    transaction::Fingerprint,
};

/// A bucket in 24 bytes. The default is an empty slot, which no fingerprint matches.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Bucket {
    /// 96 bits of the fingerprint.
    low: u64,
    high: u32,
    frac: u32,
    /// The TAT's microseconds in the lower 53 bits, a [`Scale`] above them.
    tat: u64,
}

impl Bucket {
    const TAT_BITS: u32 = 53;
    const TAT_MASK: u64 = (1 << Self::TAT_BITS) - 1;

    #[inline]
    pub(super) fn new(print: &Fingerprint, tat: Tat, tolerance: Ticks) -> Self {
        let mut bucket = Self {
            low: print.low,
            high: stored_high(print),
            frac: 0,
            tat: 0,
        };
        bucket.set(tat, tolerance);
        bucket
    }

    #[inline]
    pub(super) fn set(&mut self, tat: Tat, tolerance: Ticks) {
        let scale = u64::from(Scale::new(tolerance).0);
        self.tat = scale << Self::TAT_BITS | tat.storable().us;
        self.frac = tat.frac;
    }

    #[inline]
    pub(super) fn is_of(&self, print: &Fingerprint) -> bool {
        self.low == print.low && self.high == stored_high(print)
    }

    /// What chooses the bucket's rows, or `None` for an empty slot.
    #[inline]
    pub(super) fn low(&self) -> Option<u64> {
        (self.low != 0).then_some(self.low)
    }

    #[inline]
    pub(super) fn tat(&self) -> Tat {
        Tat {
            us: self.tat & Self::TAT_MASK,
            frac: self.frac,
        }
    }

    /// Whether nothing is lost if the bucket is forgotten.
    pub(super) fn is_full(&self, now: Timestamp) -> bool {
        self.tat() <= Tat::from_micros(now.as_micros())
    }

    /// How far the bucket is from full, in parts of its tolerance: 0 is full, 2¹¹ empty.
    pub(super) fn debt(&self, now: Timestamp) -> u64 {
        let us = self.tat().us.saturating_sub(now.as_micros());
        (us << 11) / self.scale().micros()
    }

    fn scale(&self) -> Scale {
        Scale((self.tat >> Self::TAT_BITS) as u16)
    }
}

/// The half of `high` that does not choose the shard.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
#[inline]
fn stored_high(print: &Fingerprint) -> u32 {
    print.high as u32
}

/// A tolerance in eleven bits, exact to one part in 32: the power of two, then five bits below
/// the leading one.
struct Scale(u16);

impl Scale {
    const MANTISSA_BITS: u32 = 5;

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the power of two is at most 63, which leaves eleven bits"
    )]
    #[inline]
    fn new(tolerance: Ticks) -> Self {
        let us = tolerance.us | 1;
        let power = us.ilog2();
        let mantissa = (us << (63 - power) >> (63 - Self::MANTISSA_BITS)) & 31;
        Self((u64::from(power) << Self::MANTISSA_BITS | mantissa) as u16)
    }

    /// At least 1.
    fn micros(&self) -> u64 {
        let power = self.0 >> Self::MANTISSA_BITS;
        let parts = u128::from(32 + (self.0 & 31)) << power;
        u64::try_from(parts >> Self::MANTISSA_BITS).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);
    const PRINT: Fingerprint = Fingerprint { low: 7, high: 11 };

    #[test]
    fn extreme_tats_and_tolerances_fit_a_bucket() {
        for us in [2, 31, 32, 33, 1_000_000, (1 << 51) - 1, 1 << 51, u64::MAX] {
            let about = Scale::new(Ticks::from_micros(us)).micros();
            assert!(about.abs_diff(us) <= 1 + us / 32, "{us}: {about}");
            let tat = Tat {
                us: (1 << 53) - 1,
                frac: u32::MAX - 1,
            };
            let bucket = Bucket::new(&PRINT, tat, Ticks::from_micros(us));
            assert_eq!(bucket.tat(), tat);
            assert!(us > 1 << 51 || bucket.debt(NOW) > 0);
        }
        let fraction = Tat { us: 0, frac: 1 };
        let bucket = Bucket::new(&PRINT, fraction, Ticks { us: 0, frac: 1 });
        assert_eq!(bucket.tat(), fraction);
    }

    #[test]
    fn tat_beyond_53_bits_is_the_greatest_and_leaves_the_scale_alone() {
        for us in [1 << 53, 1 << 58, u64::MAX] {
            for tolerance in [0, 1, 1_000_000, 1 << 51] {
                let tolerance = Ticks::from_micros(tolerance);
                let bucket = Bucket::new(&PRINT, Tat::from_micros(us), tolerance);
                assert_eq!(bucket.tat(), Tat::from_micros((1 << 53) - 1));
                assert_eq!(bucket.scale().0, Scale::new(tolerance).0);
                assert!(bucket.debt(NOW) > 0);
            }
        }
    }
}
