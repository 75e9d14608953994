use std::borrow::Cow;

use thiserror::Error;

use crate::message::debug_is_message;

/// The error for values that no limit can have, for a text that is not a limit or not a part of one, and for a limit whose buckets a
/// backend cannot keep. Its message says what to change.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Limit;
///
/// let error = Limit::new(0, 10, Duration::from_secs(1)).expect_err("a burst of 0 lets nothing pass");
/// assert_eq!(error.to_string(), "burst is 0, so nothing would ever pass: use at least 1");
/// ```
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct LimitError {
    field: Option<&'static str>,
    tier: Option<usize>,
    message: Cow<'static, str>,
}

debug_is_message!(LimitError);

/// A value that no limit can have. Unlike [`LimitError`], it can be created and matched in a `const fn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidValue {
    pub(super) field: &'static str,
    pub(crate) message: &'static str,
}

impl InvalidValue {
    pub(super) const fn new(field: &'static str, message: &'static str) -> Self {
        Self { field, message }
    }
}

impl LimitError {
    /// Creates the error for a limit that a backend cannot keep. The reason says what to change.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self::text(reason.into())
    }

    /// Creates the error for a text as a whole.
    pub(crate) fn text(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            field: None,
            tier: None,
            message: message.into(),
        }
    }

    /// Creates the error for a value.
    pub(crate) fn value(field: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            field: Some(field),
            ..Self::text(message)
        }
    }

    pub(crate) const fn of(invalid: InvalidValue) -> Self {
        Self {
            field: Some(invalid.field),
            tier: None,
            message: Cow::Borrowed(invalid.message),
        }
    }

    /// Names the tier with the value.
    pub(crate) fn in_tier(self, tier: usize) -> Self {
        Self {
            tier: Some(tier),
            message: format!("tier {tier}: {}", self.message).into(),
            ..self
        }
    }

    /// Quotes the text that the limit was read from.
    pub(crate) fn in_line(self, line: &str) -> Self {
        Self {
            message: format!("`{line}` is not a limit: {}", self.message).into(),
            ..self
        }
    }

    /// Returns the value to change, by its name in files; `None` if a text as a whole is not a limit.
    pub(crate) fn field(&self) -> Option<&'static str> {
        self.field
    }

    /// Returns the tier with the value, with 0 for the lowest, if it is in a tier.
    pub(crate) fn tier(&self) -> Option<usize> {
        self.tier
    }
}

impl From<InvalidValue> for LimitError {
    fn from(invalid: InvalidValue) -> Self {
        Self::of(invalid)
    }
}
