use std::{fmt, sync::Arc};

use thiserror::Error;

use crate::{
    id::{IdFormat, shortened},
    transaction::{LimitKey, OnFailure},
};

/// A limit's name, what stands for it in bucket keys (its number or, if it has none, the name), and
/// what its clients' ids look like.
///
/// A number is the application's to assign. It must stay the same for as long as there are buckets,
/// across deploys: it is what state is stored under, so that a limit may be renamed.
///
/// Names match `[A-Za-z][A-Za-z0-9_.-]*`. A name that does not is refused by
/// [`LimitsBuilder::build`](super::LimitsBuilder::build).
///
/// ```
/// use tollgate::{id::IdFormat, limit::LimitName};
///
/// let orders = LimitName::new("NewOrdersPerAccount", 6, IdFormat::RegId);
/// assert_eq!(orders.key().to_string(), "6");
/// // A name alone stands for itself, and takes any id.
/// assert_eq!(LimitName::from("uploads"), LimitName::unnumbered("uploads", IdFormat::Opaque));
/// assert_eq!(LimitName::from("uploads").key().to_string(), "uploads");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LimitName {
    name: Arc<str>,
    number: Option<u32>,
    format: IdFormat,
    on_failure: Option<OnFailure>,
}

impl LimitName {
    /// A name with a number and a format of ids.
    #[must_use]
    pub fn new(name: &str, number: u32, format: IdFormat) -> Self {
        Self::of(name, Some(number), format)
    }

    /// A name that stands for itself in bucket keys, with a format of ids.
    #[must_use]
    pub fn unnumbered(name: &str, format: IdFormat) -> Self {
        Self::of(name, None, format)
    }

    pub(super) fn of(name: &str, number: Option<u32>, format: IdFormat) -> Self {
        Self {
            name: name.into(),
            number,
            format,
            on_failure: None,
        }
    }

    /// Sets what is decided while the store does not answer, where a
    /// [`FailurePolicy`](crate::backend::FailurePolicy) shall do otherwise than for most limits.
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The number, if it has one.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        self.number
    }

    /// What its clients' ids look like.
    #[must_use]
    #[inline]
    pub fn format(&self) -> IdFormat {
        self.format
    }

    #[inline]
    pub(crate) fn failure(&self) -> Option<OnFailure> {
        self.on_failure
    }

    /// What stands for the name in bucket keys.
    #[must_use]
    #[inline]
    pub fn key(&self) -> LimitKey<'_> {
        self.number
            .map_or(LimitKey::Name(&self.name), LimitKey::Number)
    }

    /// Whether it is a name alone, which says nothing of number and format.
    pub(super) fn is_bare(&self) -> bool {
        self.number.is_none() && self.format == IdFormat::default()
    }

    pub(super) fn validate(&self) -> Result<(), NameError> {
        let mut chars = self.name.chars();
        let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
        let goes_on = chars.all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        if starts && goes_on {
            Ok(())
        } else {
            Err(NameError(shortened(&self.name)))
        }
    }
}

impl From<&str> for LimitName {
    fn from(name: &str) -> Self {
        Self::unnumbered(name, IdFormat::default())
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

/// The error of a name that no limit can have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a limit name: begin with an ASCII letter, \
     and go on with letters, digits, `_`, `.` or `-`"
)]
pub struct NameError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_with_a_letter() {
        for good in ["a", "NewOrdersPerAccount", "api.v2", "A-b_c.9"] {
            assert_eq!(LimitName::from(good).validate(), Ok(()), "{good}");
        }
        for bad in ["", "6", "_a", "a b", "a:b", "a\"", "ä", "aä", "a\n"] {
            assert!(LimitName::from(bad).validate().is_err(), "{bad}");
        }
    }
}
