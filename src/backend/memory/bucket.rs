//! What is stored of a bucket.

use super::fingerprint::Fingerprint;
use crate::{
    clock::Timestamp,
    gcra::{Tat, Ticks},
};

/// What is stored of a bucket beside its tag, in 20 bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Bucket {
    /// The 64 bits of the fingerprint that choose the rows.
    low: [u32; 2],
    /// The TAT's microseconds in the lower 53 bits, a [`Scale`] above them.
    tat: [u32; 2],
    frac: u32,
}

impl Bucket {
    const TAT_BITS: u32 = 53;

    pub(super) fn new(print: &Fingerprint, tat: Tat, tolerance: Ticks) -> Self {
        let scale = u64::from(Scale::new(tolerance).0);
        let tat_us = split(scale << Self::TAT_BITS | tat.us);
        Self {
            low: split(print.low),
            tat: tat_us,
            frac: tat.frac,
        }
    }

    /// Whether the bucket is this one, its tag being so.
    #[inline]
    pub(super) fn is_of(&self, print: &Fingerprint) -> bool {
        self.low == split(print.low)
    }

    pub(super) fn low(&self) -> u64 {
        join(self.low)
    }

    #[inline]
    pub(super) fn tat(&self) -> Tat {
        Tat {
            us: join(self.tat) & ((1 << Self::TAT_BITS) - 1),
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
        Scale(u16::try_from(join(self.tat) >> Self::TAT_BITS).expect("11 bits are left"))
    }
}

/// Two halves, so that a bucket is aligned to four bytes and takes no more than its 20.
#[expect(clippy::cast_possible_truncation, reason = "each half is meant")]
#[inline]
fn split(n: u64) -> [u32; 2] {
    [n as u32, (n >> 32) as u32]
}

#[inline]
fn join([lower, upper]: [u32; 2]) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

/// A tolerance in eleven bits, exact to one part in 32: the power of two, then five bits below
/// the leading one.
struct Scale(u16);

impl Scale {
    const MANTISSA_BITS: u32 = 5;

    fn new(tolerance: Ticks) -> Self {
        let us = tolerance.us.max(1);
        let power = us.ilog2();
        let mantissa = (us << Self::MANTISSA_BITS >> power) & 31;
        let bits = u64::from(power) << Self::MANTISSA_BITS | mantissa;
        Self(u16::try_from(bits).expect("a tolerance is at most 2^51"))
    }

    /// At least 1.
    fn micros(&self) -> u64 {
        let power = self.0 >> Self::MANTISSA_BITS;
        (32 + u64::from(self.0 & 31)) << power >> Self::MANTISSA_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);
    const PRINT: Fingerprint = Fingerprint { low: 7, high: 11 };

    #[test]
    fn extreme_tats_and_tolerances_fit_a_bucket() {
        for us in [1, 2, 31, 32, 33, 1_000_000, (1 << 51) - 1, 1 << 51] {
            let scale = Scale::new(Ticks::from_micros(us));
            let about = scale.micros();
            assert!(about <= us && us - about <= us / 32, "{us}: {about}");
            let tat = Tat {
                us: (1 << 53) - 1,
                frac: u32::MAX - 1,
            };
            let bucket = Bucket::new(&PRINT, tat, Ticks::from_micros(us));
            assert_eq!(bucket.tat(), tat);
            assert!(bucket.debt(NOW) > 0);
        }
        let fraction = Tat { us: 0, frac: 1 };
        let bucket = Bucket::new(&PRINT, fraction, Ticks { us: 0, frac: 1 });
        assert_eq!(bucket.tat(), fraction);
    }
}
