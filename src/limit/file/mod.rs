//! Files of limits: each language is parsed into one kind of tree, from which definitions are read.

mod entry;
pub(super) mod json;
#[cfg(feature = "toml")]
mod toml;
mod tree;
#[cfg(feature = "yaml")]
mod yaml;

use std::{fs, path::Path, sync::Arc};

pub(super) use self::{
    entry::{Entry, line, scalar, unexpected},
    tree::{Key, Node, Value},
};
use super::mistake::{Mistakes, Reporter};

/// The language of a file or a text. The extension of its name selects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Language {
    Yaml,
    Json,
    Toml,
}

/// A file, or a text with its name.
#[derive(Clone, Hash)]
pub(super) struct Source {
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

impl Source {
    /// Reads the current content.
    pub(super) fn read(&self, mistakes: &Mistakes) -> Option<Document> {
        let (file, report) = (&self.file, Reporter::new(mistakes, Some(&self.file)));
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

/// What a parser reads, or a mistake with its line; 0 if it is not known.
type Parsed<T> = Result<T, (u64, String)>;
