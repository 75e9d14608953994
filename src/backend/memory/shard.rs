//! The tables and their locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use super::{
    fingerprint::{Fingerprint, pick},
    table::Table,
};

/// Buckets per shard when all are there: few enough that a table grows in a fraction of a millisecond.
const BUCKETS_PER_SHARD: usize = 4096;
const MAX_SHARDS: usize = 4096;

#[derive(Debug)]
pub(super) struct Shards(Box<[Shard]>);

/// A table behind a lock, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<Table>);

impl Shards {
    pub(super) fn new(max_buckets: usize) -> Self {
        let shards = (max_buckets / BUCKETS_PER_SHARD).clamp(1, MAX_SHARDS);
        let cap = max_buckets / shards;
        Self(
            (0..shards)
                .map(|_| Shard(Mutex::new(Table::new(cap))))
                .collect(),
        )
    }

    pub(super) fn buckets(&self) -> usize {
        self.0.iter().map(|shard| shard.lock().occupied()).sum()
    }

    /// Locks the shard of one bucket.
    #[inline]
    pub(super) fn lock(&self, print: &Fingerprint) -> MutexGuard<'_, Table> {
        self.0[self.place(print)].lock()
    }

    /// Locks the shards of all these buckets, in ascending order, so that two batches never wait
    /// for each other.
    pub(super) fn lock_all(&self, prints: &[Fingerprint]) -> Tables<'_> {
        let mut places: SmallVec<[usize; 4]> = prints.iter().map(|p| self.place(p)).collect();
        places.sort_unstable();
        places.dedup();
        let locked = places
            .into_iter()
            .map(|place| (place, self.0[place].lock()));
        Tables {
            shards: self,
            locked: locked.collect(),
        }
    }

    fn place(&self, print: &Fingerprint) -> usize {
        pick((print.high >> 32) as u32, self.0.len())
    }
}

impl Shard {
    /// A table is whole between any two of its operations, so a poisoned lock says nothing.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tables of one batch, locked.
pub(super) struct Tables<'a> {
    shards: &'a Shards,
    locked: SmallVec<[(usize, MutexGuard<'a, Table>); 4]>,
}

impl Tables<'_> {
    /// The table of one of the buckets that were locked.
    pub(super) fn of(&mut self, print: &Fingerprint) -> &mut Table {
        let place = self.shards.place(print);
        let i = self.locked.partition_point(|(locked, _)| *locked < place);
        &mut self.locked[i].1
    }
}
