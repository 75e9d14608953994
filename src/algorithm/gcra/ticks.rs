use serde::{Deserialize, Serialize};

/// An exact span or instant: `us + frac / count` microseconds, where `count` is that of the limit and `frac < count`.
///
/// As the state of a bucket, it is the theoretical arrival time, in microseconds since the Unix epoch.
/// The [backend docs](crate::backend#a-custom-backend) have an example.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Ticks {
    /// Whole microseconds.
    pub us: u64,
    /// The rest, in parts of the count.
    pub frac: u32,
}

impl Ticks {
    #[inline]
    pub(crate) const fn micros(us: u64) -> Self {
        Self { us, frac: 0 }
    }

    /// Divides a number of parts by the count. A quotient that does not fit is the largest.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "both are checked or below the count"
    )]
    pub(super) const fn divide(parts: u128, count: u32) -> Self {
        let us = parts / count as u128;
        Self {
            us: if us > u64::MAX as u128 {
                u64::MAX
            } else {
                us as u64
            },
            frac: (parts % count as u128) as u32,
        }
    }

    /// Returns the number of parts.
    pub(super) const fn parts(self, count: u32) -> u128 {
        self.us as u128 * count as u128 + self.frac as u128
    }

    #[inline]
    pub(super) fn plus(self, other: Self, count: u32) -> Self {
        let (frac, has_wrapped) = self.frac.overflowing_add(other.frac);
        let carries = has_wrapped || frac >= count;
        Self {
            us: self.us.saturating_add(other.us + u64::from(carries)),
            frac: if carries {
                frac.wrapping_sub(count)
            } else {
                frac
            },
        }
    }

    /// Subtracts a span, down to zero.
    #[inline]
    pub(super) fn minus(self, other: Self, count: u32) -> Self {
        if self <= other {
            return Self::default();
        }
        let borrows = self.frac < other.frac;
        let raised = if borrows { count } else { 0 };
        Self {
            us: self.us - other.us - u64::from(borrows),
            frac: self.frac.wrapping_add(raised).wrapping_sub(other.frac),
        }
    }

    /// Rounds up.
    #[inline]
    pub(crate) const fn ceil(self) -> u64 {
        self.us.saturating_add((self.frac > 0) as u64)
    }
}
