use thiserror::Error;

use super::{
    concurrency::ConcurrencyError, duration_error::DurationError, gcra::GcraError,
    limit_error_kind::LimitErrorKind, quota::QuotaError, tiers::TiersError, window::WindowError,
};
use crate::message::debug_is_message;

/// The error for values that no limit has, or for a text that is not a limit, or not a part of one. Its message says what
/// to change.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, limit::LimitErrorKind};
///
/// let error = Limit::new(0, 10, Duration::from_secs(1)).expect_err("a burst of 0 lets nothing pass");
/// assert_eq!((error.field(), error.kind()), (Some("burst"), LimitErrorKind::Zero));
/// assert_eq!(error.to_string(), "burst is 0, so nothing would ever pass: use at least 1");
///
/// let error = "10 per fortnight".parse::<Limit>().expect_err("a fortnight is 336h");
/// assert_eq!((error.field(), error.kind()), (Some("period"), LimitErrorKind::Unreadable));
/// ```
#[derive(Clone, PartialEq, Eq, Error)]
#[error(transparent)]
pub struct LimitError(NotationError);

debug_is_message!(LimitError);

impl LimitError {
    pub(crate) const fn new(mistake: NotationError) -> Self {
        Self(mistake)
    }

    pub(crate) const fn quota(mistake: QuotaError) -> Self {
        Self(NotationError::Quota(mistake))
    }

    /// Returns the value to change, by its name in files such as `burst` or `max_wait`; `None` if a text as a whole is not
    /// a limit.
    #[must_use]
    pub fn field(&self) -> Option<&'static str> {
        self.0.field_and_kind().0
    }

    /// Returns what is wrong with the value.
    #[must_use]
    pub fn kind(&self) -> LimitErrorKind {
        self.0.field_and_kind().1
    }

    /// Returns the tier with the value, with 0 for the lowest, if it is in a tier.
    #[must_use]
    pub fn tier(&self) -> Option<usize> {
        self.0.tier()
    }
}

/// A mistake in a limit as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotationError {
    #[error(
        "write it as `10/s burst 20`, `5 per 15m`, `5 in any 15m`, `1000 per calendar day` or `4 at once`"
    )]
    Form,
    #[error("write `{0}`")]
    Instead(String),
    #[error("use numbers up to 4294967295")]
    LargeNumber,
    #[error("{field} is `{text}`: use a whole number up to 4294967295, in digits only")]
    Number { field: &'static str, text: String },
    #[error("{field} is `{text}`: write true or false")]
    Flag { field: &'static str, text: String },
    #[error("{field}: {source}")]
    Duration {
        field: &'static str,
        source: DurationError,
    },
    #[error(transparent)]
    Gcra(#[from] GcraError),
    #[error(transparent)]
    Window(#[from] WindowError),
    #[error(transparent)]
    Quota(#[from] QuotaError),
    #[error(transparent)]
    Concurrency(#[from] ConcurrencyError),
    #[error(transparent)]
    Tiers(#[from] TiersError),
    #[error("`{text}` is not a limit: {mistake}")]
    Line { text: String, mistake: Box<Self> },
    #[error(transparent)]
    Text(#[from] DurationError),
    #[error(
        "it is not a share of the burst: write a percentage above 0 and up to 100, as `5%` or `2.5%`"
    )]
    LeaseShare,
}

impl NotationError {
    /// Returns the field to change first, if it is one of several, and what is wrong.
    pub(crate) fn field_and_kind(&self) -> (Option<&'static str>, LimitErrorKind) {
        let (field, kind) = match self {
            Self::Form | Self::Instead(_) | Self::LargeNumber | Self::Text(_) => {
                return (None, LimitErrorKind::Unreadable);
            }
            Self::Line { mistake, .. } => return mistake.field_and_kind(),
            Self::Number { field, .. }
            | Self::Flag { field, .. }
            | Self::Duration { field, .. } => (*field, LimitErrorKind::Unreadable),
            Self::LeaseShare => ("lease", LimitErrorKind::Unreadable),
            Self::Gcra(mistake) => mistake.field_and_kind(),
            Self::Window(mistake) => mistake.field_and_kind(),
            Self::Quota(mistake) => mistake.field_and_kind(),
            Self::Concurrency(mistake) => mistake.field_and_kind(),
            Self::Tiers(mistake) => mistake.field_and_kind(),
        };
        (Some(field), kind)
    }

    /// Returns the tier with the mistake, if it is in a tier.
    pub(crate) fn tier(&self) -> Option<usize> {
        match self {
            Self::Tiers(TiersError::Tier { tier, .. }) => Some(*tier),
            Self::Line { mistake, .. } => mistake.tier(),
            _ => None,
        }
    }
}
