//! The state of a bucket in 12 bytes, for algorithms whose states fit.

use super::{gcra, quota};
use crate::clock::Timestamp;

/// The state of a bucket. The default is a full bucket, which need not be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowValue {
    /// Below [`QUOTA`], a bucket by GCRA; from there on, one with a quota.
    pub(crate) bits: u64,
    pub(crate) low: u32,
}

/// The least bits with a quota: above those with the longest tolerance.
pub(super) const QUOTA: u64 = 1640 << 53;

/// What [`RowValue::debt`] says of a bucket that is used up.
pub(super) const EMPTY: u64 = 1 << 11;

impl RowValue {
    pub(crate) const FULL: Self = Self { bits: 0, low: 0 };

    /// Returns the value to store: a bucket that is full again is like an unused one. One that becomes full at this very
    /// instant is kept, because the clock may step back.
    #[inline]
    pub(crate) fn unless_full(self, now: Timestamp) -> Self {
        let is_full = match self.bits.checked_sub(QUOTA) {
            None => gcra::row::was_full(self, now.as_micros()),
            Some(bits) => quota::row::is_full(bits, now.as_micros()),
        };
        match is_full {
            true => Self::FULL,
            false => self,
        }
    }

    /// Returns whether nothing is lost if the bucket is forgotten.
    #[inline]
    pub(crate) fn is_full(self, now: Timestamp) -> bool {
        match self.bits.checked_sub(QUOTA) {
            None => gcra::row::is_full(self, now.as_micros()),
            Some(bits) => quota::row::is_full(bits, now.as_micros()),
        }
    }

    /// Returns how much of the bucket is used at `now`: 0 if it is full, 2¹¹ if it is empty.
    pub(crate) fn debt(self, now: Timestamp) -> u64 {
        match self.bits.checked_sub(QUOTA) {
            None => gcra::row::debt(self, now.as_micros()),
            Some(bits) => quota::row::debt(bits, now.as_micros()),
        }
    }
}
