//! When this process learnt about the units that the store has taken from windows.
//!
//! A receipt has the instant of its units by the store's clock. The local history has the instant at which this process
//! learnt about them, by its own clock. This table finds the one by the other, so that a refund removes the same units
//! in both, and a refund of another process's charge removes nothing here.

use std::{fmt, sync::OnceLock};

use parking_lot::{Mutex, MutexGuard};

use crate::transaction::Fingerprint;

/// The units that were learnt about last. A refund of units that are no longer in the table is not learnt, so this process
/// counts them until they expire.
#[derive(Default)]
pub(super) struct LearntUnits {
    /// Created with the first entry, because most limits have no window.
    sets: OnceLock<Box<[Mutex<LearntSet>]>>,
}

/// The entries whose hashes belong together. A new one replaces the oldest, so that entries are only lost to several newer
/// ones, however unlucky their hashes are.
type LearntSet = [LearntAt; 8];

/// The units that the store has taken from one bucket at one instant.
#[derive(Clone, Copy, Default)]
struct LearntAt {
    /// A hash of the bucket and of the store's instant; 0 if there is no entry.
    units: u64,
    /// The instant in the local history.
    here: u64,
}

impl LearntUnits {
    const SETS: usize = 2048;

    /// Returns the local instant for units that the store has taken at `at`. It is `now`, unless this process knows
    /// units of the same instant already.
    pub(super) fn take(&self, bucket: Fingerprint, at: u64, now: u64) -> u64 {
        let units = units(bucket, at);
        let mut set = self.lock(units);
        if let Some(known) = set.iter().find(|known| known.units == units) {
            return known.here;
        }
        if let Some(oldest) = set.iter_mut().min_by_key(|known| known.here) {
            *oldest = LearntAt { units, here: now };
        }
        now
    }

    /// Returns the local instant of units that the store has taken at `at`, if it is known.
    pub(super) fn find(&self, bucket: Fingerprint, at: u64) -> Option<u64> {
        let units = units(bucket, at);
        let set = self.lock(units);
        let known = set.iter().find(|known| known.units == units);
        known.map(|known| known.here)
    }

    fn lock(&self, units: u64) -> MutexGuard<'_, LearntSet> {
        let sets = self.sets.get_or_init(|| {
            let sets = (0..Self::SETS).map(|_| Mutex::default());
            sets.collect()
        });
        sets[(units >> 32) as usize % Self::SETS].lock()
    }
}

/// Returns a hash of a bucket and an instant, which is never 0.
fn units(bucket: Fingerprint, at: u64) -> u64 {
    /// Spreads the instants over all bits.
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (bucket.low ^ at).wrapping_mul(ODD) ^ bucket.high;
    (mixed ^ mixed >> 29).wrapping_mul(ODD).max(1)
}

impl fmt::Debug for LearntUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LearntUnits").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_until_many_newer_ones_are_learnt() {
        let (learnt, bucket) = (LearntUnits::default(), Fingerprint { low: 3, high: 5 });
        // A quarter of the room. With one place for each hash, every tenth of these would be lost.
        let few = LearntUnits::SETS as u64 * 2;
        for at in 1..=few {
            assert_eq!(learnt.take(bucket, at, 10 * at), 10 * at);
            assert_eq!(learnt.take(bucket, at, 10 * at + 1), 10 * at, "known");
        }
        let lost = (1..=few).filter(|at| learnt.find(bucket, *at) != Some(10 * at));
        assert!(lost.count() < 10);
        assert_eq!(learnt.find(bucket, few + 1), None);
        for at in few + 1..=100 * few {
            learnt.take(bucket, at, 10 * at);
        }
        assert_eq!(learnt.find(bucket, 1), None);
        assert_eq!(learnt.find(bucket, 100 * few), Some(1000 * few));
    }
}
