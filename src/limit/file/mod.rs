//! Files of limits: each language is parsed into one kind of tree, from which definitions are read.

mod entry;
pub(super) mod json;
#[cfg(feature = "toml")]
mod toml;
#[cfg(feature = "yaml")]
mod yaml;

use std::{borrow::Cow, fmt, fs, path::Path, sync::Arc};

pub(super) use self::entry::{Entry, line, scalar, unexpected};
use super::mistake::{Mistakes, Reporter};
use crate::id::shortened;

/// The language of a file or a text. The extension of its name selects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Language {
    Yaml,
    Json,
    Toml,
}

/// A file, or a text with its name.
#[derive(Clone, Hash)]
pub(super) struct LimitsSource {
    pub(super) is_overrides: bool,
    pub(super) file: Arc<Path>,
    pub(super) text: Option<Arc<str>>,
}

/// The content of a source when it was read.
#[derive(Hash)]
pub(crate) struct Document {
    pub(super) is_overrides: bool,
    pub(super) file: Arc<Path>,
    pub(crate) language: Language,
    text: Arc<str>,
}

impl LimitsSource {
    /// Reads the current content.
    pub(super) fn read(&self, mistakes: &Mistakes) -> Option<Document> {
        let file = &self.file;
        let report = Reporter::new(mistakes, Some(&self.file));
        let extension = file.extension().unwrap_or_default();
        let language = match extension.to_ascii_lowercase().to_str() {
            Some("yml" | "yaml") => Language::Yaml,
            Some("json") => Language::Json,
            Some("toml") => Language::Toml,
            _ => {
                let remedy = "use .yml, .yaml, .json or .toml";
                report.mistaken(format!("its name has no known extension: {remedy}"));
                return None;
            }
        };
        let read = || {
            let bytes = fs::read(file).map_err(|cause| report.unreadable(cause));
            let encoding = |_| report.mistaken("it is not UTF-8: save it as UTF-8");
            let text = String::from_utf8(bytes.ok()?).map_err(encoding);
            Some(text.ok()?.into())
        };
        Some(Document {
            is_overrides: self.is_overrides,
            file: Arc::clone(file),
            language,
            text: self.text.clone().or_else(read)?,
        })
    }
}

impl Document {
    /// Parses the text.
    pub(super) fn tree(&self, report: Reporter<'_>) -> Option<Node<'_>> {
        // Some editors write a byte order mark.
        let text = self.text.strip_prefix('\u{feff}').unwrap_or(&self.text);
        let parsed = match self.language {
            Language::Json => json::parse(text),
            #[cfg(feature = "yaml")]
            Language::Yaml => yaml::parse(text),
            #[cfg(feature = "toml")]
            Language::Toml => toml::parse(text),
            #[cfg(not(all(feature = "yaml", feature = "toml")))]
            language => {
                let feature = format!("{language:?}").to_lowercase();
                let message = format!("it needs tollgate's feature `{feature}`");
                Err((0, format!("{message}: enable it, or write JSON")))
            }
        };
        let mistaken = |(line, message): (u64, String)| report.at(line).mistaken(message);
        parsed.map_err(mistaken).ok()
    }
}

/// The deepest nesting of values. Limits need six levels.
const MAX_DEPTH: usize = 32;

fn too_deep(line: u64) -> (u64, String) {
    let message = "values are nested too deep: limits have six levels at most";
    (line, message.to_owned())
}

/// The result of a parser. A mistake has its line, or 0 if the line is not known.
type ParseResult<T> = Result<T, (u64, String)>;

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
    /// A key without a value.
    Nothing,
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Vec<(MapKey<'a>, Node<'a>)>),
}

/// A key of a map, and its line. Keys can be repeated.
#[derive(Clone, Debug)]
pub(in crate::limit) struct MapKey<'a> {
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

/// The offsets at which the lines of a text end.
pub(super) struct LineEnds(Vec<usize>);

impl LineEnds {
    pub(super) fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(offset, _)| offset).collect())
    }

    /// Returns the line of an offset.
    pub(super) fn at(&self, offset: usize) -> u64 {
        1 + self.0.partition_point(|end| *end < offset) as u64
    }
}
