use thiserror::Error;

use crate::algorithm::limit_error_kind::LimitErrorKind;

/// An invalid burst, count, period or maximum wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum GcraError {
    /// The burst is zero.
    #[error("burst is 0, so nothing would ever pass: use at least 1")]
    ZeroBurst,
    /// The count is zero.
    #[error("count is 0, so no token would ever come back: use at least 1")]
    ZeroCount,
    /// The period is zero.
    #[error("period is 0: use the time in which `count` tokens come back, such as `1s` or `3h`")]
    ZeroPeriod,
    /// The period has a fraction of a microsecond.
    #[error("period is not a whole number of microseconds: round it to one")]
    PeriodTooFine,
    /// An empty bucket would take longer than 2⁵¹ µs to fill.
    #[error(
        "an empty bucket would take more than 71 years (2^51 µs) to fill: \
         lower the burst or the period, or raise the count"
    )]
    ToleranceTooLong,
    /// The maximum wait has a fraction of a microsecond.
    #[error("max_wait is not a whole number of microseconds: round it to one")]
    WaitTooFine,
    /// The maximum wait and the tolerance are longer than 2⁵¹ µs together.
    #[error(
        "max_wait and the time in which an empty bucket fills are more than 71 years (2^51 us) together: lower max_wait"
    )]
    WaitTooLong,
}

impl GcraError {
    /// Returns the field to change first, and what is wrong with it.
    pub(crate) const fn field_and_kind(self) -> (&'static str, LimitErrorKind) {
        match self {
            Self::ZeroBurst => ("burst", LimitErrorKind::Zero),
            Self::ZeroCount => ("count", LimitErrorKind::Zero),
            Self::ZeroPeriod => ("period", LimitErrorKind::Zero),
            Self::PeriodTooFine => ("period", LimitErrorKind::TooFine),
            Self::ToleranceTooLong => ("period", LimitErrorKind::TooLong),
            Self::WaitTooFine => ("max_wait", LimitErrorKind::TooFine),
            Self::WaitTooLong => ("max_wait", LimitErrorKind::TooLong),
        }
    }
}
