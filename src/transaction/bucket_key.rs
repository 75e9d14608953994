use std::fmt;

use crate::algorithm::AlgorithmKey;

/// The part of a [`BucketKey`] that stands for the limit: its number or, without one, its name.
///
/// A number and a name never collide, because a name starts with a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKey<'a> {
    /// The number that the application assigned, stable across deploys.
    Number(u32),
    /// The name.
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
/// for a quota and `t` for tiers.
///
/// ```
/// use tollgate::transaction::{AlgorithmKey, BucketKey, LimitKey};
///
/// let key = BucketKey::new(LimitKey::Number(6), "12345678");
/// assert_eq!(key.to_string(), "6:12345678");
/// assert_eq!(key.of(AlgorithmKey::Window).to_string(), "6~w:12345678");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketKey<'a> {
    /// The limit.
    pub limit: LimitKey<'a>,
    /// The algorithm by which the bucket counts.
    pub algorithm: AlgorithmKey,
    /// The client, in the limit's canonical form.
    pub id: &'a str,
}

impl<'a> BucketKey<'a> {
    /// The key of the bucket that `id` has under `limit` by GCRA. [`Member::new`](super::Member::new) sets the algorithm.
    #[must_use]
    pub const fn new(limit: LimitKey<'a>, id: &'a str) -> Self {
        Self {
            limit,
            algorithm: AlgorithmKey::Gcra,
            id,
        }
    }

    /// Sets the algorithm.
    #[must_use]
    pub const fn of(self, algorithm: AlgorithmKey) -> Self {
        Self { algorithm, ..self }
    }
}

impl fmt::Display for BucketKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}:{}", self.limit, self.algorithm, self.id)
    }
}
