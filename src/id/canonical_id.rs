use std::fmt;

use thiserror::Error;

use super::id::Id;

/// An id in its canonical form, which is part of the key of its bucket. [`IdFormat::fold`](super::IdFormat::fold) returns it.
#[derive(Clone, Debug)]
pub struct CanonicalId<'a> {
    text: Text<'a>,
    /// Whether the id stands for more than the written text, such as a range or a whole domain.
    wider: bool,
}

#[derive(Clone, Debug)]
enum Text<'a> {
    Borrowed(&'a str),
    Owned(Id),
}

impl<'a> CanonicalId<'a> {
    /// Creates an id from a canonical text, or the canonical part of a text.
    #[inline]
    pub(super) fn same(text: &'a str) -> Self {
        Self {
            text: Text::Borrowed(text),
            wider: false,
        }
    }

    /// Creates the canonical form of `text`.
    pub(super) fn canonical(text: &'a str, id: Id) -> Self {
        match id.as_str() == text {
            true => Self::same(text),
            false => Self {
                text: Text::Owned(id),
                wider: false,
            },
        }
    }

    /// Sets whether the id stands for more than the written text.
    pub(super) fn wider(mut self, wider: bool) -> Self {
        self.wider = wider;
        self
    }

    pub(super) fn is_wider(&self) -> bool {
        self.wider
    }

    /// The text.
    #[must_use]
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.text {
            Text::Borrowed(text) => text,
            Text::Owned(id) => id.as_str(),
        }
    }

    /// Returns the text, which borrows from the original text or from `room`.
    #[inline]
    pub(crate) fn keep_in(self, room: &'a mut Option<Id>) -> &'a str {
        match self.text {
            Text::Borrowed(text) => text,
            Text::Owned(id) => room.insert(id).as_str(),
        }
    }

    /// Returns the id, unless it equals `written`.
    #[inline]
    pub(crate) fn unless(self, written: &str) -> Option<Id> {
        match self.text {
            Text::Borrowed(text) if text.len() == written.len() => None,
            Text::Borrowed(text) => Some(text.into()),
            Text::Owned(id) => Some(id),
        }
    }

    /// The id.
    #[must_use]
    pub fn into_id(self) -> Id {
        match self.text {
            Text::Borrowed(text) => text.into(),
            Text::Owned(id) => id,
        }
    }
}

impl AsRef<str> for CanonicalId<'_> {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for CanonicalId<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for CanonicalId<'_> {}

impl fmt::Display for CanonicalId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// A mistake in an id, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum IdProblem {
    #[error("it is empty: use the client's id, or leave it out")]
    Empty,
    #[error("it is reserved for requests without an id: use `Transaction::missing`")]
    Reserved,
    #[error("{0}")]
    Form(&'static str),
    #[error("it belongs to `{0}`, which shares one bucket: write that if you mean all of it")]
    Wider(Box<str>),
}
