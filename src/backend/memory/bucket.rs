//! A bucket as a row stores it.

use crate::{algorithm::RowValue, clock::Timestamp, transaction::Fingerprint};

/// A bucket in 24 bytes. The default is an empty slot, which no fingerprint matches.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct RowBucket {
    /// 96 bits of the fingerprint.
    low: u64,
    high: u32,
    value_low: u32,
    value_bits: u64,
}

impl RowBucket {
    #[inline]
    pub(super) fn new(print: &Fingerprint, value: RowValue) -> Self {
        Self {
            low: print.low,
            high: stored_high(print),
            value_low: value.low,
            value_bits: value.bits,
        }
    }

    #[inline]
    pub(super) fn value(&self) -> RowValue {
        RowValue {
            bits: self.value_bits,
            low: self.value_low,
        }
    }

    #[inline]
    pub(super) fn set(&mut self, value: RowValue) {
        self.value_bits = value.bits;
        self.value_low = value.low;
    }

    #[inline]
    pub(super) fn is_of(&self, print: &Fingerprint) -> bool {
        self.low == print.low && self.high == stored_high(print)
    }

    /// Returns the part of the fingerprint that chooses the rows, or `None` for an empty slot.
    #[inline]
    pub(super) fn low(&self) -> Option<u64> {
        (self.low != 0).then_some(self.low)
    }

    /// Returns whether nothing is lost if the bucket is forgotten.
    pub(super) fn is_full(&self, now: Timestamp) -> bool {
        self.value().is_full(now)
    }

    /// Returns how much of the bucket is used: 0 if it is full, 2¹¹ if it is empty.
    pub(super) fn debt(&self, now: Timestamp) -> u64 {
        self.value().debt(now)
    }
}

/// Returns the half of `high` that does not choose the shard.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
#[inline]
fn stored_high(print: &Fingerprint) -> u32 {
    print.high as u32
}
