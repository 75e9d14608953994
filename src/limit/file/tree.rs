use std::{borrow::Cow, fmt};

use crate::id::shortened;

/// A value in a file of any language, and its line.
///
/// Scalars are kept exactly as written, so no id is converted to a number and back.
#[derive(Clone, Debug)]
pub(in crate::limit) struct Node<'a> {
    pub(in crate::limit) line: u64,
    pub(in crate::limit) value: Value<'a>,
}

#[derive(Clone, Debug)]
pub(in crate::limit) enum Value<'a> {
    /// An empty place where a value could be.
    Nothing,
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Vec<(Key<'a>, Node<'a>)>),
}

/// A key of a map, and its line. Keys can be repeated.
#[derive(Clone, Debug)]
pub(in crate::limit) struct Key<'a> {
    pub(in crate::limit) line: u64,
    pub(in crate::limit) text: Cow<'a, str>,
}

impl<'a> Node<'a> {
    pub(super) fn new(line: u64, value: Value<'a>) -> Self {
        Self { line, value }
    }

    /// Returns the text of a scalar.
    pub(in crate::limit) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Describes the value, for error messages.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Text(text) => write!(f, "`{}`", shortened(text)),
            Self::List(items) if items.is_empty() => f.write_str("an empty list"),
            Self::List(_) => f.write_str("a list"),
            Self::Map(entries) if entries.is_empty() => f.write_str("an empty map"),
            Self::Map(_) => f.write_str("a map"),
        }
    }
}

/// The ends of a text's lines.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(offset, _)| offset).collect())
    }

    /// Returns the line of an offset.
    pub(super) fn at(&self, offset: usize) -> u64 {
        1 + self.0.partition_point(|end| *end < offset) as u64
    }
}
