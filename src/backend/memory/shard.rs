//! Buckets in shards, each with its own lock.

use parking_lot::{Mutex, MutexGuard};

use crate::transaction::Fingerprint;

#[derive(Debug)]
pub(super) struct Shards<T>(Box<[Shard<T>]>);

/// Buckets behind a lock, on separate cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<T>(Mutex<T>);

impl<T> Shards<T> {
    pub(super) fn new(shards: usize, new: impl Fn() -> T) -> Self {
        let shards = (0..shards).map(|_| Shard(Mutex::new(new())));
        Self(shards.collect())
    }

    /// Locks one shard after the other.
    pub(super) fn iter(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.0.iter().map(Shard::lock)
    }

    /// Returns the shard of a bucket.
    #[inline]
    pub(super) fn of(&self, print: &Fingerprint) -> usize {
        pick((print.high >> 32) as u32, self.0.len())
    }

    /// Locks a shard. A caller that locks several shards must do so in ascending order, to avoid a deadlock.
    #[inline]
    pub(super) fn lock(&self, shard: usize) -> MutexGuard<'_, T> {
        self.0[shard].lock()
    }
}

impl<T> Shard<T> {
    /// The buckets are consistent between any two operations, so a lock need not remember panics.
    #[inline]
    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }
}

/// Maps a uniform hash to `0..n`, without a division.
#[inline]
pub(super) fn pick(hash: u32, n: usize) -> usize {
    ((u64::from(hash) * n as u64) >> 32) as usize
}
