//! Random numbers and keys of hashes. In a simulation, both follow from a seed, so that the seed repeats the run.

use ahash::RandomState;

/// Returns a random number.
pub(crate) fn number() -> u64 {
    #[cfg(feature = "testing")]
    if let Some(random) = simulated::random() {
        return random;
    }
    RandomState::new().hash_one(0_u8)
}

/// Returns random keys for a hash. In a simulation, they depend on `salt` only, because statics outlive it.
#[cfg_attr(not(feature = "testing"), expect(unused_variables))]
pub(crate) fn keys(salt: u64) -> RandomState {
    #[cfg(feature = "testing")]
    if simulated::now().is_some() {
        return RandomState::with_seeds(salt, 2, 3, 4);
    }
    RandomState::new()
}

/// The clock and the random numbers of a simulated process.
#[cfg(feature = "testing")]
pub(crate) mod simulated {
    use std::{cell::RefCell, rc::Rc};

    thread_local! {
        static CURRENT: RefCell<Option<Process>> = const { RefCell::new(None) };
    }

    /// A process that runs on the current thread.
    struct Process {
        /// Returns microseconds since the Unix epoch.
        now: Rc<dyn Fn() -> u64>,
        seed: u64,
    }

    /// Runs a function in a process with this clock, in microseconds since the Unix epoch, and this seed of random numbers.
    pub(crate) fn run<T>(now: Rc<dyn Fn() -> u64>, seed: u64, function: impl FnOnce() -> T) -> T {
        let _outer = Outer(CURRENT.replace(Some(Process { now, seed })));
        function()
    }

    /// Returns the time of the simulated process, if there is one.
    #[inline]
    pub(crate) fn now() -> Option<u64> {
        let now =
            CURRENT.with_borrow(|process| process.as_ref().map(|process| Rc::clone(&process.now)));
        now.map(|now| now())
    }

    /// Returns the next random number of the simulated process, if there is one.
    pub(crate) fn random() -> Option<u64> {
        CURRENT.with_borrow_mut(|process| {
            let process = process.as_mut()?;
            // SplitMix64.
            process.seed = process.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = process.seed;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            Some(mixed ^ (mixed >> 31))
        })
    }

    /// Restores the outer process when it is dropped.
    struct Outer(Option<Process>);

    impl Drop for Outer {
        fn drop(&mut self) {
            CURRENT.replace(self.0.take());
        }
    }
}
