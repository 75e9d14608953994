//! When this process learnt about the units that the store has taken from windows.
//!
//! A receipt has the instant of its units by the store's clock. The local history has the instant at which this process
//! learnt about them, by its own clock. This table finds the one by the other, so that a refund removes the same units
//! in both, and a refund of another process's charge removes nothing here.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use crate::transaction::Fingerprint;

/// The units that were learnt about last. A later entry replaces an earlier one with the same place. A refund of units
/// that are no longer in the table is not learnt, so this process counts them until they expire.
#[derive(Default)]
pub(super) struct LearntUnits {
    /// Created with the first entry, because most limits have no window.
    places: OnceLock<Box<[Mutex<LearntAt>]>>,
}

/// The units that the store has taken from one bucket at one instant.
#[derive(Clone, Copy, Default)]
struct LearntAt {
    /// A hash of the bucket and of the store's instant; 0 if there is no entry.
    units: u64,
    /// The instant in the local history.
    here: u64,
}

impl LearntUnits {
    const PLACES: usize = 16_384;

    /// Returns the local instant for units that the store has taken at `at`. It is `now`, unless this process knows
    /// units of the same instant already.
    pub(super) fn take(&self, bucket: Fingerprint, at: u64, now: u64) -> u64 {
        let units = units(bucket, at);
        let mut place = self.lock(units);
        if place.units != units {
            *place = LearntAt { units, here: now };
        }
        place.here
    }

    /// Returns the local instant of units that the store has taken at `at`, if it is known.
    pub(super) fn find(&self, bucket: Fingerprint, at: u64) -> Option<u64> {
        let units = units(bucket, at);
        let place = self.lock(units);
        (place.units == units).then_some(place.here)
    }

    fn lock(&self, units: u64) -> MutexGuard<'_, LearntAt> {
        let places = self.places.get_or_init(|| {
            let places = (0..Self::PLACES).map(|_| Mutex::default());
            places.collect()
        });
        let place = &places[(units >> 32) as usize % Self::PLACES];
        place.lock().unwrap_or_else(PoisonError::into_inner)
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
