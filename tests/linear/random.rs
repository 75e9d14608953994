//! Numbers that are the same in each run.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

/// Clones draw from the same sequence.
#[derive(Clone, Debug)]
pub(crate) struct Random(Arc<AtomicU64>);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    pub(crate) fn below(&self, n: u64) -> u64 {
        let next = |seed: u64| Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let seed = self.0.fetch_update(SeqCst, SeqCst, next).unwrap();
        // The first numbers of similar seeds would be similar, too.
        let mixed = (seed ^ (seed >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 33) % n
    }

    /// A place among so many.
    pub(crate) fn place(&self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap()
    }

    pub(crate) fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Lets others run for a while.
    pub(crate) async fn pause(&self) {
        for _ in 0..self.below(4) {
            tokio::task::yield_now().await;
        }
    }
}
