use std::fmt;

/// The part of a [`BucketKey`](crate::transaction::BucketKey) that stands for the algorithm: nothing for GCRA, or `~` and a
/// letter. No name and no number contains a `~`.
///
/// A bucket belongs to its algorithm. If the algorithm of a limit changes, its clients start with new buckets, and while
/// two versions of a limit run in one fleet, each version has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AlgorithmKey {
    /// GCRA, written as nothing.
    #[default]
    Gcra,
    /// Tiers, written `~t`.
    Tiers,
    /// A window, written `~w`.
    Window,
    /// A quota, written `~q`.
    Quota,
    /// A concurrency limit, written `~c`.
    Concurrency,
}

impl AlgorithmKey {
    /// All algorithms, in the order in which their fields are listed.
    pub(crate) const ALL: [Self; 5] = [
        Self::Gcra,
        Self::Window,
        Self::Quota,
        Self::Concurrency,
        Self::Tiers,
    ];

    /// The text of the key.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gcra => "",
            Self::Tiers => "~t",
            Self::Window => "~w",
            Self::Quota => "~q",
            Self::Concurrency => "~c",
        }
    }
}

impl fmt::Display for AlgorithmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
