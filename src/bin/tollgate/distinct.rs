//! Counts distinct clients in bounded memory.

use std::{collections::HashSet, hash::BuildHasherDefault};

use ahash::AHasher;

/// The most hashes that are kept. Each takes some ten bytes.
const KEPT: usize = 1 << 20;

/// A number of distinct clients. It is exact up to a million. Beyond that, it keeps every second hash, then every fourth and so
/// on, and multiplies: the standard error is below 0.2 %.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    /// Hashes with this many zeros at their end.
    kept: HashSet<u64, BuildHasherDefault<AHasher>>,
    zeros: u32,
}

impl Distinct {
    /// Adds the client with this hash.
    pub(crate) fn add(&mut self, hash: u64) {
        if hash.trailing_zeros() < self.zeros {
            return;
        }
        self.kept.insert(hash);
        while self.kept.len() > KEPT {
            self.zeros += 1;
            let zeros = self.zeros;
            self.kept.retain(|hash| hash.trailing_zeros() >= zeros);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        (self.kept.len() as u64) << self.zeros.min(40)
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.zeros == 0
    }
}

/// The hash of an id. It is the same in every run.
pub(crate) fn hash(id: &str) -> u64 {
    const SEEDS: [u64; 4] = [
        0x9e37_79b9_7f4a_7c15,
        0xbf58_476d_1ce4_e5b9,
        0x94d0_49bb_1331_11eb,
        0x2545_f491_4f6c_dd1d,
    ];
    let [a, b, c, d] = SEEDS;
    ahash::RandomState::with_seeds(a, b, c, d).hash_one(id)
}
