use std::{
    hash::{BuildHasher, Hash, Hasher},
    sync::LazyLock,
};

use ahash::RandomState;

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

/// The part of a fingerprint that all buckets of one limit share. It does not depend on the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitSeed(Fingerprint);

/// Two independently keyed hashes, both with the resistance against chosen inputs that aHash is made for.
static KEYS: LazyLock<[RandomState; 2]> =
    LazyLock::new(|| [RandomState::new(), RandomState::new()]);

impl LimitSeed {
    /// A number and a name are hashed differently, since only a name ends with its length.
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
            hasher.finish()
        };
        let [low, high] = &*KEYS;
        Self(Fingerprint {
            low: hash(low),
            high: hash(high),
        })
    }

    /// The fingerprint of the bucket that the client with this canonical id has.
    #[inline]
    pub(crate) fn bucket(self, id: &str) -> Fingerprint {
        let hash = |keys: &RandomState, seed: u64| {
            let mut hasher = keys.build_hasher();
            hasher.write_u64(seed);
            hasher.write(id.as_bytes());
            hasher.finish()
        };
        let [low, high] = &*KEYS;
        Fingerprint {
            low: hash(low, self.0.low).max(1),
            high: hash(high, self.0.high),
        }
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
