use std::{
    fmt,
    hash::{BuildHasher, Hash, Hasher},
    sync::LazyLock,
};

use ahash::AHasher;

use super::bucket_key::LimitKey;
use crate::{algorithm::AlgorithmKey, random};

/// A keyed hash of 128 bits that represents a bucket key within this process.
///
/// The keys of the hash are random and are created when the process first needs them, so no client can aim at the
/// bucket of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Never 0.
    pub(crate) low: u64,
    /// The upper half depends on the id alone, so that a client's buckets by several limits are close to each other.
    pub(crate) high: u64,
}

/// Hashes only one half, which is a hash already.
impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.low);
    }
}

/// A keyed hash of a limit and an id: the fingerprint of the client's bucket, apart from the algorithm. The algorithm is
/// only known once the limit in force is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientFingerprint {
    pub(crate) low: u64,
    high: u64,
}

impl ClientFingerprint {
    /// Returns the fingerprint of the client's bucket with this algorithm. For GCRA, it is the hash itself.
    #[inline(always)]
    pub(crate) fn bucket(self, algorithm: AlgorithmKey) -> Fingerprint {
        /// For each algorithm, multiples of two odd numbers, which differ in all parts of a hash.
        const MULTIPLES: [[u64; 2]; AlgorithmKey::ALL.len()] = {
            let mut multiples = [[0; 2]; AlgorithmKey::ALL.len()];
            let mut n = 0;
            while n < multiples.len() {
                multiples[n][0] = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(n as u64);
                multiples[n][1] = 0xbf58_476d_1ce4_e5b9_u64.wrapping_mul(n as u64) >> 32;
                n += 1;
            }
            multiples
        };
        // A client does not know the hashes, so it cannot find two whose difference is one of these.
        let [low, high] = MULTIPLES[algorithm as usize];
        Fingerprint {
            low: (self.low ^ low).max(1),
            high: self.high ^ high,
        }
    }
}

/// The hash of an id, from which the fingerprints of its buckets by all limits follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdHash {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl IdHash {
    #[inline(never)]
    pub(crate) fn of(id: &str) -> Self {
        // Addresses and most numbers are short. A loop for long ids would make this function save more registers.
        match id.len() <= 16 {
            true => Self::hash(id),
            false => Self::hash_long(id),
        }
    }

    #[inline(never)]
    fn hash_long(id: &str) -> Self {
        Self::hash(id)
    }

    #[inline(always)]
    fn hash(id: &str) -> Self {
        let hash = |begun: &AHasher| {
            let mut hasher = begun.clone();
            hasher.write(id.as_bytes());
            hasher.finish()
        };
        let [low, high] = &*HASHERS;
        Self {
            low: hash(low),
            high: hash(high),
        }
    }
}

/// A random number for each limit. Clients know neither it nor the hashes of their ids, so they cannot find an id whose bucket
/// by one limit is that of another id by another limit.
#[derive(Clone, Copy)]
pub(crate) struct LimitSeed {
    low: u64,
    high: u32,
}

/// One for each half of a fingerprint. They are random, and the same for all limiters of this process.
static HASHERS: LazyLock<[AHasher; 2]> =
    LazyLock::new(|| [1, 2].map(|half| random::keys(half).build_hasher()));

impl LimitSeed {
    /// A name ends with a byte that never occurs in UTF-8, so a number and a name have different hashes.
    pub(crate) fn of(limit: LimitKey<'_>) -> Self {
        let hash = |begun: &AHasher| {
            let mut hasher = begun.clone();
            match limit {
                LimitKey::Number(number) => hasher.write_u32(number),
                LimitKey::Name(name) => {
                    hasher.write(name.as_bytes());
                    hasher.write_u8(0xff);
                }
            }
            hasher.finish()
        };
        let [low, high] = &*HASHERS;
        Self {
            low: hash(low),
            high: (hash(high) >> 32) as u32,
        }
    }

    /// Returns the fingerprint of a client of this limit.
    #[inline(always)]
    pub(crate) fn client(&self, id: IdHash) -> ClientFingerprint {
        ClientFingerprint {
            low: self.low ^ id.low,
            high: u64::from(self.high) ^ id.high,
        }
    }
}

impl fmt::Debug for LimitSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitSeed(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_algorithm_and_id_do_not_run_together() {
        let clients = [
            LimitSeed::of(LimitKey::Name("a")).client(IdHash::of("bc")),
            LimitSeed::of(LimitKey::Name("ab")).client(IdHash::of("c")),
            LimitSeed::of(LimitKey::Number(1)).client(IdHash::of("c")),
            LimitSeed::of(LimitKey::Name("1")).client(IdHash::of("c")),
            LimitSeed::of(LimitKey::Number(2)).client(IdHash::of("c")),
        ];
        let algorithms = [
            AlgorithmKey::Gcra,
            AlgorithmKey::Tiers,
            AlgorithmKey::Window,
            AlgorithmKey::Quota,
        ];
        let buckets = clients.map(|client| algorithms.map(|algorithm| client.bucket(algorithm)));
        let buckets = buckets.concat();
        for (i, a) in buckets.iter().enumerate() {
            for b in &buckets[i + 1..] {
                assert!(a.low != b.low && a.high != b.high);
            }
        }
        assert_eq!(
            clients[0],
            LimitSeed::of(LimitKey::Name("a")).client(IdHash::of("bc"))
        );
    }

    #[test]
    fn no_fingerprint_has_the_lower_half_of_an_empty_slot() {
        let tiers = AlgorithmKey::Tiers;
        let low = ClientFingerprint { low: 0, high: 0 }.bucket(tiers).low;
        for (client, algorithm) in [(0, AlgorithmKey::Gcra), (low, tiers)] {
            let client = ClientFingerprint {
                low: client,
                high: 0,
            };
            assert_eq!(client.bucket(algorithm).low, 1);
        }
    }
}
