use thiserror::Error;

use crate::{algorithm::limit_error_kind::LimitErrorKind, id::shortened, spelling::nearest};

/// A mistake in a quota as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum QuotaError {
    #[error(transparent)]
    Amount(#[from] AmountError),
    #[error(transparent)]
    Length(#[from] PerError),
    #[error(transparent)]
    Offset(#[from] InvalidUtcOffset),
    #[error("a calendar has `hour`, `day`, `week` and `month`: write `1000 per calendar day`")]
    Unit,
    #[error("per is `{text}`: {hint}")]
    Per { text: String, hint: String },
    #[error("utc_offset is `{text}`: {source}")]
    OffsetField {
        text: String,
        source: InvalidUtcOffset,
    },
    #[error(
        "utc_offset is for quotas per hour, day, week or month; a period of this length starts with the first request: \
         remove it"
    )]
    NoOffset,
}

impl QuotaError {
    /// Returns the field to change first, and what is wrong with it.
    pub(crate) const fn field_and_kind(&self) -> (&'static str, LimitErrorKind) {
        match self {
            Self::Amount(AmountError::Zero) => ("quota", LimitErrorKind::Zero),
            Self::Length(PerError::Zero) => ("per", LimitErrorKind::Zero),
            Self::Length(PerError::TooFine) => ("per", LimitErrorKind::TooFine),
            Self::Length(PerError::TooLong) => ("per", LimitErrorKind::TooLong),
            Self::Unit | Self::Per { .. } => ("per", LimitErrorKind::Unreadable),
            Self::Offset(_) | Self::OffsetField { .. } | Self::NoOffset => {
                ("utc_offset", LimitErrorKind::Unreadable)
            }
        }
    }

    pub(super) fn per(text: &str) -> Self {
        const UNITS: [&str; 4] = ["hour", "day", "week", "month"];
        let hint = nearest(text, &UNITS).map_or_else(
            || "write `hour`, `day`, `week` or `month`, or a duration such as `24h`, which starts with the first request".into(),
            |near| format!("did you mean `{near}`?"),
        );
        let text = shortened(text);
        Self::Per { text, hint }
    }
}

/// An invalid quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum AmountError {
    /// It is zero.
    #[error("quota is 0, so nothing would ever pass: use at least 1")]
    Zero,
}

/// A length that is not a valid period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum PerError {
    /// It is zero.
    #[error(
        "per is 0: use the length of the period, as `24h`, or `hour`, `day`, `week` or `month`"
    )]
    Zero,
    /// It has a fraction of a microsecond.
    #[error("per is not a whole number of microseconds: round it to one")]
    TooFine,
    /// It is above 2⁵¹ µs.
    #[error("per is more than 71 years (2^51 us): shorten it")]
    TooLong,
}

/// A text that is not a [`UtcOffset`](super::UtcOffset).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("write an offset from UTC as `+02:00` or `-03:30`, from `-23:59` to `+23:59`")]
pub(crate) struct InvalidUtcOffset;
