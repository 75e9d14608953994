//! Tables of buckets, in parts with locks of their own.

use parking_lot::{Mutex, MutexGuard};

use crate::transaction::Fingerprint;

/// A table of buckets, in parts so that threads seldom wait for each other.
#[derive(Debug, Default)]
pub(super) struct Sharded<T>([Mutex<T>; 16]);

impl<T> Sharded<T> {
    /// Locks the part that a bucket belongs to.
    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
    pub(super) fn lock(&self, bucket: &Fingerprint) -> MutexGuard<'_, T> {
        self.0[bucket.high as usize % self.0.len()].lock()
    }

    /// Locks all parts, one at a time.
    pub(super) fn iter(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.0.iter().map(Mutex::lock)
    }
}
