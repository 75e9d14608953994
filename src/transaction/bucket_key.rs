use std::{
    fmt,
    hash::{Hash, Hasher},
};

use crate::{algorithm::AlgorithmKey, id::HASHER};

/// The part of a [`BucketKey`] that stands for the limit: its number, which is stable across deploys, or, without one, its name.
/// A number and a name never collide, because a name starts with a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LimitKey<'a> {
    Number(u32),
    Name(&'a str),
}

impl fmt::Display for LimitKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// The key of one bucket, written `number:id` (or `name:id`) for GCRA, and `number~w:id` for a window. The letter is `q`
/// for a quota, `c` for a concurrency limit, `t` for tiers and `b` for a list of blocked clients. Keys that differ are written
/// differently.
///
/// ```
/// use tollgate::{Limit, Limits, backend::custom::Member, id::IdFormat, limit::LimitName, transaction::Mode};
///
/// let name = LimitName::new("orders", 6, IdFormat::RegId);
/// let limits = Limits::builder().limit(name, Limit::per_hour(100)).build()?;
/// let orders = limits.get("orders").expect("it was just defined");
/// let member = Member::new(orders, "12345678", 1, Mode::CheckAndSpend);
/// assert_eq!(member.key().to_string(), "6:12345678");
/// # Ok::<_, tollgate::limit::LimitsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketKey<'a> {
    pub(crate) limit: LimitKey<'a>,
    /// The algorithm by which the bucket counts.
    pub algorithm: AlgorithmKey,
    /// The client, in the limit's canonical form.
    pub id: &'a str,
}

impl<'a> BucketKey<'a> {
    /// The key of the bucket that `id` has under `limit` by GCRA.
    pub(crate) const fn new(limit: LimitKey<'a>, id: &'a str) -> Self {
        Self {
            limit,
            algorithm: AlgorithmKey::Gcra,
            id,
        }
    }

    /// The key with another id, such as a hash of its own.
    #[must_use]
    pub const fn with_id<'b>(self, id: &'b str) -> BucketKey<'b>
    where
        'a: 'b,
    {
        BucketKey { id, ..self }
    }

    /// Sets the algorithm.
    pub(crate) const fn of(self, algorithm: AlgorithmKey) -> Self {
        Self { algorithm, ..self }
    }
}

impl fmt::Display for BucketKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}:{}", self.limit, self.algorithm, self.id)
    }
}

/// The hash of a client, which all of its buckets share, and the hash of one bucket.
///
/// The keys of the hashes are random and are created when the process first needs them, so no client can aim at the
/// bucket of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) client: u64,
    pub(crate) bucket: u64,
}

/// Passes on the hash of the bucket alone.
impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.bucket);
    }
}

/// A random number for each limit, which makes the hashes of a client's buckets differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitSeed(u64);

impl LimitSeed {
    pub(crate) fn of(limit: LimitKey<'_>) -> Self {
        Self(HASHER.hash_one(limit))
    }

    /// Returns the fingerprint of a client's bucket. `client` is the hash of its id.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "both halves are mixed")]
    pub(crate) fn fingerprint(self, algorithm: AlgorithmKey, client: u64) -> Fingerprint {
        let mixed = client ^ self.0.rotate_left(8 * algorithm as u32);
        let product = u128::from(mixed) * 0x9e37_79b9_7f4a_7c15;
        let bucket = (product >> 64) as u64 ^ product as u64;
        // The largest number is left out, because it marks a gap in memory.
        Fingerprint {
            client,
            bucket: bucket.min(u64::MAX - 1),
        }
    }
}

impl Fingerprint {
    /// Returns a part of the fingerprint, with which a receipt recognizes its bucket.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a part is enough to find mistakes"
    )]
    pub(crate) const fn short(self) -> u32 {
        self.bucket as u32
    }

    /// Returns a random number that identifies this process, because fingerprints differ from one process to another.
    pub(crate) fn process() -> u64 {
        HASHER.hash_one(0_u8)
    }
}
