use std::{borrow::Cow, fmt};

use crate::id::shortened;

/// A value in a file, whatever language the file is in, and the line that it stands in.
///
/// Scalars are text exactly as it is written, so that no id ever becomes a number and back.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    pub(super) line: u64,
    pub(super) value: Value<'a>,
}

#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    /// There is nothing where a value could be.
    Nothing,
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Vec<(MapKey<'a>, Node<'a>)>),
}

/// A key of a map, and the line that it stands in. Keys may be there more than once.
#[derive(Clone, Debug)]
pub(super) struct MapKey<'a> {
    pub(super) line: u64,
    pub(super) text: Cow<'a, str>,
}

/// Says what there is, for people who had to write something else.
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

/// Why a text is not in the language that it should be in.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub(super) line: Option<u64>,
    pub(super) message: String,
}

/// Where the lines of a text end.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(offset, _)| offset).collect())
    }

    /// The line that an offset is in.
    pub(super) fn at(&self, offset: usize) -> u64 {
        1 + self.0.partition_point(|end| *end < offset) as u64
    }
}
