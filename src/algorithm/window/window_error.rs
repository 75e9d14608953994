use thiserror::Error;

use crate::algorithm::limit_error_kind::LimitErrorKind;

/// An invalid window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum WindowError {
    /// The limit is zero.
    #[error("limit is 0, so nothing would ever pass: use at least 1")]
    ZeroLimit,
    /// Too many units would have to be remembered.
    #[error(
        "limit {0} is above 4096 in a window, where each unit has to be remembered: lower it, or use a quota, or burst, \
         count and period"
    )]
    TooManyToRemember(u32),
    /// The window is zero.
    #[error("window is 0: use the time in which at most `limit` pass, as `1s` or `15m`")]
    ZeroWindow,
    /// The window has a fraction of a microsecond.
    #[error("window is not a whole number of microseconds: round it to one")]
    TooFine,
    /// The window is above 2⁵¹ µs.
    #[error("window is more than 71 years (2^51 us): shorten it")]
    TooLong,
}

impl WindowError {
    /// Returns the field to change first, and what is wrong with it.
    pub(crate) const fn field_and_kind(self) -> (&'static str, LimitErrorKind) {
        match self {
            Self::ZeroLimit => ("limit", LimitErrorKind::Zero),
            Self::TooManyToRemember(_) => ("limit", LimitErrorKind::TooMany),
            Self::ZeroWindow => ("window", LimitErrorKind::Zero),
            Self::TooFine => ("window", LimitErrorKind::TooFine),
            Self::TooLong => ("window", LimitErrorKind::TooLong),
        }
    }
}
