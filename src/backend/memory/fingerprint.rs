//! What stands for a bucket key: 128 bits of keyed hash, of which the table stores 96.

use std::{
    fmt,
    hash::{BuildHasher, Hasher},
};

use ahash::RandomState;

use crate::transaction::{BucketKey, LimitKey};

/// A bucket key's hash under keys that only this backend knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::backend) struct Fingerprint {
    /// Stored, and the source of the table's rows.
    pub(in crate::backend) low: u64,
    /// Stored in its lower half; the upper half picks the shard.
    pub(in crate::backend) high: u64,
}

/// Two independently keyed hashes, both with the resistance against chosen inputs that aHash is
/// made for.
#[derive(Clone)]
pub(in crate::backend) struct Fingerprints {
    low: RandomState,
    high: RandomState,
}

impl Fingerprints {
    pub(in crate::backend) fn new() -> Self {
        Self {
            low: RandomState::new(),
            high: RandomState::new(),
        }
    }

    #[inline]
    pub(in crate::backend) fn of(&self, key: &BucketKey<'_>) -> Fingerprint {
        Fingerprint {
            low: hash(&self.low, key),
            high: hash(&self.high, key),
        }
    }
}

/// Hashes a key in as few steps as tell any two apart: a number and a name are fed differently, and
/// the hasher takes the lengths of texts into account.
#[inline]
fn hash(keys: &RandomState, key: &BucketKey<'_>) -> u64 {
    let mut hasher = keys.build_hasher();
    match key.limit {
        LimitKey::Number(number) => hasher.write_u32(number),
        LimitKey::Name(name) => hasher.write(name.as_bytes()),
    }
    hasher.write(key.id.as_bytes());
    hasher.finish()
}

impl fmt::Debug for Fingerprints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprints(..)")
    }
}

/// Maps a uniform hash to `0..n`, without a division.
#[inline]
pub(in crate::backend) fn pick(hash: u32, n: usize) -> usize {
    ((u64::from(hash) * n as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_two_backends_differ() {
        let key = BucketKey::new(LimitKey::Number(1), "10.0.0.1");
        assert_ne!(Fingerprints::new().of(&key), Fingerprints::new().of(&key));
    }

    #[test]
    fn limit_and_id_do_not_run_together() {
        let prints = Fingerprints::new();
        let keys = [
            BucketKey::new(LimitKey::Name("a"), "bc"),
            BucketKey::new(LimitKey::Name("ab"), "c"),
            BucketKey::new(LimitKey::Number(1), "c"),
            BucketKey::new(LimitKey::Name("1"), "c"),
        ];
        for (i, a) in keys.iter().enumerate() {
            for b in &keys[i + 1..] {
                assert_ne!(prints.of(a), prints.of(b), "{a} and {b}");
            }
        }
    }

    #[test]
    fn picks_cover_the_range() {
        assert_eq!(
            (pick(0, 7), pick(u32::MAX, 7), pick(u32::MAX / 2, 8)),
            (0, 6, 3)
        );
    }
}
