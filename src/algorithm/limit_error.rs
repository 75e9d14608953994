use thiserror::Error;

use super::notation::NotationError;

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
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(transparent)]
pub struct LimitError(NotationError);

/// What is wrong with a value. [`LimitError::kind`] returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitErrorKind {
    /// It is 0, or empty.
    Zero,
    /// It is a duration with a fraction of a microsecond.
    TooFine,
    /// It leads to a time above 2⁵¹ µs (71 years).
    TooLong,
    /// It is more than a bucket can remember.
    TooMany,
    /// It is a text that stands for no such value.
    Unreadable,
}

impl LimitError {
    pub(crate) const fn new(mistake: NotationError) -> Self {
        Self(mistake)
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
