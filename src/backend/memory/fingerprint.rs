//! The fingerprint of a bucket key: 128 bits of keyed hash, of which a backend stores 96.

use std::{
    fmt,
    hash::{BuildHasher, Hasher},
};

use ahash::RandomState;

use crate::transaction::{BucketKey, LimitKey};

/// The hash of a bucket key under keys that only this backend has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::backend) struct Fingerprint {
    /// Stored; chooses the rows. It is never 0.
    pub(in crate::backend) low: u64,
    /// The lower half is stored, the upper half chooses the shard.
    pub(in crate::backend) high: u64,
}

/// Two independently keyed hashes. aHash is made to resist chosen inputs.
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
        let mut lanes = Lanes(self.low.build_hasher(), self.high.build_hasher());
        // A number and a name go in by different steps, and the length of a text counts, so that no two keys are the
        // same input.
        match key.limit {
            LimitKey::Number(number) => lanes.write_u32(number),
            LimitKey::Name(name) => lanes.write(name.as_bytes()),
        }
        lanes.write(key.id.as_bytes());
        Fingerprint {
            low: lanes.0.finish().max(1),
            high: lanes.1.finish(),
        }
    }
}

/// Both hashes of one input.
struct Lanes<H>(H, H);

impl<H: Hasher> Lanes<H> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
        self.1.write(bytes);
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0.write_u32(number);
        self.1.write_u32(number);
    }
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
