use thiserror::Error;

use crate::algorithm::limit_error_kind::LimitErrorKind;

/// An invalid concurrency limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum ConcurrencyError {
    /// The limit is zero.
    #[error("concurrent is 0, so nothing would ever pass: use at least 1")]
    ZeroLimit,
    /// Too many permits would have to be remembered.
    #[error("concurrent {0} is above 4096, and each permit has to be remembered: lower it")]
    TooManyToRemember(u32),
    /// The hold is below 1 s or above 24 h.
    #[error(
        "hold is not between 1s and 24h: a permit is renewed three times in this time, and lost after it"
    )]
    HoldOutOfRange,
    /// The hold has a fraction of a microsecond.
    #[error("hold is not a whole number of microseconds: round it to one")]
    HoldTooFine,
    /// The longest wait has a fraction of a microsecond.
    #[error("max_wait is not a whole number of microseconds: round it to one")]
    WaitTooFine,
    /// The longest wait is above 2⁵¹ µs.
    #[error("max_wait is more than 71 years (2^51 us): shorten it")]
    WaitTooLong,
}

impl ConcurrencyError {
    /// Returns the field to change first, and what is wrong with it.
    pub(crate) const fn field_and_kind(self) -> (&'static str, LimitErrorKind) {
        match self {
            Self::ZeroLimit => ("concurrent", LimitErrorKind::Zero),
            Self::TooManyToRemember(_) => ("concurrent", LimitErrorKind::TooMany),
            Self::HoldOutOfRange => ("hold", LimitErrorKind::TooLong),
            Self::HoldTooFine => ("hold", LimitErrorKind::TooFine),
            Self::WaitTooFine => ("max_wait", LimitErrorKind::TooFine),
            Self::WaitTooLong => ("max_wait", LimitErrorKind::TooLong),
        }
    }
}
