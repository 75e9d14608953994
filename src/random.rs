//! Random numbers and keys of hashes. A simulation decides both, so that a seed repeats it.

use ahash::RandomState;

/// Returns a random number.
pub(crate) fn number() -> u64 {
    #[cfg(feature = "testing")]
    if let Some(random) = crate::simulated::random() {
        return random;
    }
    RandomState::new().hash_one(0_u8)
}

/// Returns random keys for a hash. In a simulation, they depend on `salt` only, because statics outlive it.
#[cfg_attr(not(feature = "testing"), expect(unused_variables))]
pub(crate) fn keys(salt: u64) -> RandomState {
    #[cfg(feature = "testing")]
    if crate::simulated::now().is_some() {
        return RandomState::with_seeds(salt, 2, 3, 4);
    }
    RandomState::new()
}
