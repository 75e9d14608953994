//! The growth of a table, in steps of an eighth.

use super::{MIN_ROWS, Table};
use crate::{
    backend::memory::{
        bucket::RowBucket,
        row::{Row, SLOTS},
    },
    clock::Timestamp,
};

/// The rows of a shard of 4096 buckets.
const RESERVED_ROWS: usize = 1024;

impl Table {
    /// Drops the buckets that are full again, and spreads the others over an eighth more rows. The number of rows stays
    /// the same if a fifth of the slots are then free.
    pub(super) fn grow(&mut self, now: Timestamp) {
        let slots = self.rows.iter().flat_map(|row| row.0);
        let buckets: Vec<_> = slots.filter(|bucket| !bucket.is_full(now)).collect();
        let rows = self.rows.len();
        // If enough buckets have filled up, the same size will do. A table that only ever grew would keep the rows of
        // every burst of ids. If no bucket was dropped, the table must grow, or the caller would loop.
        let has_shrunk = buckets.len() < self.occupied;
        let mut target = match has_shrunk && buckets.len() * 5 <= rows * SLOTS * 4 {
            true => rows,
            false => (rows * 9 / 8 + 1).clamp(MIN_ROWS, self.max_rows()),
        };
        // Spreading can fail by bad luck of the hashes, even if the rows would suffice.
        while !self.spread(&buckets, target, now) {
            target = (target + target / 8 + 1).min(self.max_rows());
        }
    }

    /// Replaces the contents of the rows, and returns whether there was room. In a table of the largest size, buckets
    /// without room replace others.
    fn spread(&mut self, buckets: &[RowBucket], rows: usize, now: Timestamp) -> bool {
        let largest = rows >= self.max_rows();
        self.occupied = 0;
        self.rows.clear();
        self.reserve(rows);
        self.rows.resize(rows, Row::default());
        buckets.iter().all(|bucket| {
            let Some(rows) = bucket.low().map(|low| self.rows_of(low)) else {
                return true;
            };
            let place = self.free(rows).or_else(|| self.make_way(rows));
            self.occupied += usize::from(place.is_some());
            let place = place.or_else(|| largest.then(|| self.evict(rows, now)));
            if let Some(place) = place {
                *self.bucket_mut(place) = *bucket;
            }
            place.is_some()
        })
    }

    /// Makes room for `rows` rows, and reserves more in advance. Unused addresses cost nothing, but each move of a
    /// table leaves a gap in the heap.
    fn reserve(&mut self, rows: usize) {
        if self.rows.capacity() < rows {
            let wanted = (2 * rows).max(RESERVED_ROWS).min(self.max_rows());
            self.rows.reserve_exact(wanted.max(rows));
        }
    }
}
