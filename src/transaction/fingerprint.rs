use std::{
    fmt,
    hash::{BuildHasher, Hash, Hasher},
    sync::LazyLock,
};

use ahash::{AHasher, RandomState};

use super::bucket_key::LimitKey;

/// 128 bits of keyed hash that stand for a bucket key within this process.
///
/// The keys are drawn at random when the process first needs them, so that no client can aim at another's bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Never 0.
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// A half of it is a hash already.
impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.low);
    }
}

/// Two hashes that already contain the limit and still need an id. They do not depend on the request.
#[derive(Clone)]
pub(crate) struct LimitSeed {
    low: AHasher,
    high: AHasher,
}

/// Two independent keys, each with the resistance against chosen inputs that aHash is made for.
static KEYS: LazyLock<[RandomState; 2]> =
    LazyLock::new(|| [RandomState::new(), RandomState::new()]);

impl LimitSeed {
    /// Only a name ends with a byte that no UTF-8 has, so a number and a name are hashed differently.
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
    #[inline]
    pub(crate) fn bucket(&self, id: &str) -> Fingerprint {
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
