use std::{
    fmt,
    hash::{BuildHasher, Hash, Hasher},
    sync::LazyLock,
};

use ahash::{AHasher, RandomState};

use super::bucket_key::LimitKey;
use crate::random;

/// A keyed hash of 128 bits that represents a bucket key within this process.
///
/// The keys of the hash are random and are created when the process first needs them, so no client can aim at the
/// bucket of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Never 0.
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// Hashes only one half, which is a hash already.
impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.low);
    }
}

/// Two hashes of the limit, to which an id can be added. They do not depend on the request, so each limit computes them
/// once.
#[derive(Clone)]
pub(crate) struct LimitSeed {
    low: AHasher,
    high: AHasher,
}

/// Two independent keys. Each resists chosen inputs as well as aHash does.
static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [random::keys(1), random::keys(2)]);

impl LimitSeed {
    /// A name ends with a byte that never occurs in UTF-8, so a number and a name have different hashes.
    pub(crate) fn of(limit: LimitKey<'_>) -> Self {
        let hash = |keys: &RandomState| {
            let mut hasher = keys.build_hasher();
            match limit {
                LimitKey::Number(number) => hasher.write_u32(number),
                LimitKey::Name(name) => {
                    hasher.write(name.as_bytes());
                    hasher.write_u8(0xff);
                }
            }
            hasher
        };
        let [low, high] = &*KEYS;
        Self {
            low: hash(low),
            high: hash(high),
        }
    }

    /// Returns the fingerprint of the bucket of the client with this canonical id.
    #[inline(never)]
    pub(crate) fn bucket(&self, id: &str) -> Fingerprint {
        // Addresses and most numbers are short. A loop for long ids would make this function save more registers.
        match id.len() <= 16 {
            true => self.hash(id),
            false => self.hash_long(id),
        }
    }

    #[inline(never)]
    fn hash_long(&self, id: &str) -> Fingerprint {
        self.hash(id)
    }

    #[inline(always)]
    fn hash(&self, id: &str) -> Fingerprint {
        let hash = |begun: &AHasher| {
            let mut hasher = begun.clone();
            hasher.write(id.as_bytes());
            hasher.finish()
        };
        Fingerprint {
            low: hash(&self.low).max(1),
            high: hash(&self.high),
        }
    }
}

/// Prints nothing, because the keys are secret.
impl fmt::Debug for LimitSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitSeed(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_and_id_do_not_run_together() {
        let buckets = [
            LimitSeed::of(LimitKey::Name("a")).bucket("bc"),
            LimitSeed::of(LimitKey::Name("ab")).bucket("c"),
            LimitSeed::of(LimitKey::Number(1)).bucket("c"),
            LimitSeed::of(LimitKey::Name("1")).bucket("c"),
            LimitSeed::of(LimitKey::Number(2)).bucket("c"),
        ];
        for (i, a) in buckets.iter().enumerate() {
            for b in &buckets[i + 1..] {
                assert!(a.low != b.low && a.high != b.high);
            }
        }
        assert_eq!(buckets[0], LimitSeed::of(LimitKey::Name("a")).bucket("bc"));
    }
}
