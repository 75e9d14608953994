//! The part of each limit that this process uses while the store does not answer.

use crate::{algorithm::Share, backend::fleet::Fleet};

#[derive(Clone, Debug)]
pub(super) enum LocalShare {
    /// Always the same part.
    Fixed(Share),
    /// An equal part for each process.
    Equal(Fleet),
}

impl LocalShare {
    pub(super) const WHOLE: Self = Self::Fixed(Share::WHOLE);

    /// Returns the part for a decision that begins now.
    #[inline]
    pub(super) fn now(&self) -> Share {
        match self {
            Self::Fixed(share) => *share,
            Self::Equal(fleet) => Share::new(1, fleet.processes().get()),
        }
    }

    /// Returns the smallest part that there has been.
    pub(super) fn smallest(&self) -> Share {
        match self {
            Self::Fixed(share) => *share,
            Self::Equal(fleet) => Share::new(1, fleet.largest()),
        }
    }

    /// Returns the largest part that there can be.
    pub(super) const fn largest(&self) -> Share {
        match self {
            Self::Fixed(share) => *share,
            Self::Equal(_) => Share::WHOLE,
        }
    }
}
