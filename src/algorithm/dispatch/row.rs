//! What is left of a bucket in a row, by the algorithm to which its bits belong.

use crate::{
    algorithm::{
        gcra, quota,
        row_value::{QUOTA, RowValue},
    },
    clock::Timestamp,
};

impl RowValue {
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
