use thiserror::Error;

use crate::algorithm::limit_error_kind::LimitErrorKind;

/// Invalid tiers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum TiersError {
    /// There are none.
    #[error("tiers is empty, so nothing would ever pass: list at least one")]
    None,
    /// There are more than [`Tiers::MAX`](super::Tiers::MAX).
    #[error("{0} tiers are more than 16: remove some")]
    TooMany(usize),
    /// One of them is not valid.
    #[error("tier {tier}: {mistake}")]
    Tier {
        /// Its index, with 0 for the lowest.
        tier: usize,
        /// The mistake.
        mistake: TierError,
    },
}

impl TiersError {
    /// Returns the field to change first, and what is wrong with it.
    pub(crate) const fn field_and_kind(&self) -> (&'static str, LimitErrorKind) {
        match self {
            Self::None => ("tiers", LimitErrorKind::Zero),
            Self::TooMany(_) => ("tiers", LimitErrorKind::TooMany),
            Self::Tier { mistake, .. } => mistake.field_and_kind(),
        }
    }
}

/// A mistake in a [`Tier`](super::Tier).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum TierError {
    /// The limit is zero.
    #[error(
        "limit is 0, so no request could ever enter the tier: use at least 1, for the request \
         that enters the tier"
    )]
    ZeroLimit,
    /// The window or the active period is zero.
    #[error("{0} is 0: use a duration such as `1s`, or `infinite`")]
    Zero(&'static str),
    /// A duration has a fraction of a microsecond.
    #[error("{0} is not a whole number of microseconds: round it to one")]
    TooFine(&'static str),
    /// A duration is too long.
    #[error("{0} is more than 71 years (2^51 µs): lower it, or make it `infinite`")]
    TooLong(&'static str),
    /// Too many units would have to be remembered.
    #[error(
        "limit {0} is above 4096 in a window that slides, where each unit has to be remembered: lower it, make the \
         window at least as long as active (and, in the lowest tier, cooldown at least as long as the window), or use \
         burst, count and period"
    )]
    TooManyToRemember(u32),
}

impl TierError {
    /// Returns the field to change first, and what is wrong with it.
    pub(super) const fn field_and_kind(&self) -> (&'static str, LimitErrorKind) {
        match self {
            Self::ZeroLimit => ("limit", LimitErrorKind::Zero),
            Self::Zero(field) => (field, LimitErrorKind::Zero),
            Self::TooFine(field) => (field, LimitErrorKind::TooFine),
            Self::TooLong(field) => (field, LimitErrorKind::TooLong),
            Self::TooManyToRemember(_) => ("limit", LimitErrorKind::TooMany),
        }
    }
}
