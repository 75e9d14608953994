//! A row of the table: five buckets in two adjacent cache lines, searched without separate tags.

use super::bucket::RowBucket;
use crate::{clock::Timestamp, transaction::Fingerprint};

pub(super) const SLOTS: usize = 5;

#[derive(Clone, Copy, Default)]
#[repr(align(128))]
pub(super) struct Row(pub(super) [RowBucket; SLOTS]);

impl Row {
    /// Returns a bucket and its slot.
    #[inline(always)]
    pub(super) fn find(&self, print: &Fingerprint) -> Option<(usize, &RowBucket)> {
        let mut slots = self.0.iter().enumerate();
        slots.find(|(_, bucket)| bucket.is_of(print))
    }

    /// Returns the number of empty slots.
    pub(super) fn room(&self) -> usize {
        self.0
            .iter()
            .filter(|bucket| bucket.low().is_none())
            .count()
    }

    /// Returns an empty slot.
    pub(super) fn free(&self) -> Option<usize> {
        self.0.iter().position(|bucket| bucket.low().is_none())
    }

    /// Forgets the buckets that are full again, and returns their number.
    pub(super) fn forget_full(&mut self, now: Timestamp) -> usize {
        let before = self.room();
        for bucket in &mut self.0 {
            if bucket.is_full(now) {
                *bucket = RowBucket::default();
            }
        }
        self.room() - before
    }
}
