//! Files of limits: parses each language into one kind of tree, and reads definitions from the tree.

mod config;
mod defaults;
mod entry;
mod json;
mod layout;
mod node;
mod overrides;
#[cfg(feature = "toml")]
mod toml;
mod values;
#[cfg(feature = "yaml")]
mod yaml;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use self::node::{Node, SyntaxError};
pub(super) use self::{
    defaults::Definition,
    overrides::{ListedId, OverrideGroup},
};
use super::mistake::{LimitsError, Location, Mistake, MistakeOrigin};

/// The language of a limit file. For files, the extension selects it.
/// [`LimitsBuilder::defaults_text`](super::LimitsBuilder::defaults_text) takes one explicitly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Language {
    /// YAML 1.2: `.yml` and `.yaml`. Requires the feature `yaml`.
    Yaml,
    /// JSON: `.json`.
    Json,
    /// TOML 1.0: `.toml`. Requires the feature `toml`.
    Toml,
}

impl Language {
    fn of_file(path: &Path) -> Result<Self, Mistake> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str() {
            Some("yml" | "yaml") => Ok(Self::Yaml),
            Some("json") => Ok(Self::Json),
            Some("toml") => Ok(Self::Toml),
            _ => Err(Mistake::Extension),
        }
    }

    fn parse(self, text: &str) -> Result<Node<'_>, LimitsError> {
        let parsed = match self {
            #[cfg(feature = "yaml")]
            Self::Yaml => yaml::parse(text),
            #[cfg(feature = "toml")]
            Self::Toml => toml::parse(text),
            Self::Json => json::parse(text),
            #[cfg(not(feature = "yaml"))]
            Self::Yaml => return Err(Mistake::Feature("yaml").into()),
            #[cfg(not(feature = "toml"))]
            Self::Toml => return Err(Mistake::Feature("toml").into()),
        };
        parsed.map_err(Into::into)
    }
}

impl From<SyntaxError> for LimitsError {
    fn from(error: SyntaxError) -> Self {
        let limits_error = Self::from(Mistake::Syntax(error.message));
        match error.line {
            Some(line) => limits_error.at(line),
            None => limits_error,
        }
    }
}

/// The source of definitions.
#[derive(Clone)]
pub(super) enum LimitsSource {
    File(PathBuf),
    Text(Language, Arc<str>),
}

impl LimitsSource {
    /// Reads the current content of the source.
    pub(super) fn read(&self) -> Result<Document, LimitsError> {
        match self {
            Self::Text(language, text) => Ok(Document {
                place: Location::Text,
                language: *language,
                text: Arc::clone(text),
            }),
            Self::File(path) => {
                let place = Location::File(path.clone());
                let read = |language| {
                    let text = String::from_utf8(fs::read(path).map_err(Mistake::Read)?);
                    Ok((language, text.map_err(|_| Mistake::Encoding)?))
                };
                let (language, text) = Language::of_file(path)
                    .and_then(read)
                    .map_err(|mistake| LimitsError::from(mistake).within(&place))?;
                Ok(Document {
                    place,
                    language,
                    text: text.into(),
                })
            }
        }
    }
}

/// Prints the length of a text only, because it can contain many ids.
impl fmt::Debug for LimitsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Text(language, text) => f
                .debug_struct("Text")
                .field("language", language)
                .field("bytes", &text.len())
                .finish(),
        }
    }
}

/// The content of a source when it was read.
pub(super) struct Document {
    place: Location,
    language: Language,
    text: Arc<str>,
}

impl Document {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn place(&self) -> &Location {
        &self.place
    }

    /// Gives each definition of a document of defaults to `add`.
    pub(super) fn definitions(
        &self,
        mut add: impl FnMut(Definition) -> Result<(), LimitsError>,
    ) -> Result<(), LimitsError> {
        self.parse(|root| defaults::definitions(root)?.try_for_each(|definition| add(definition?)))
    }

    /// Gives each group of a document of overrides to `add`.
    pub(super) fn groups(
        &self,
        mut add: impl FnMut(OverrideGroup<'_>) -> Result<(), LimitsError>,
    ) -> Result<(), LimitsError> {
        self.parse(|root| overrides::groups(root, self.language, &mut add))
    }

    /// Returns the place of the override for an id, as it is written.
    pub(super) fn origin_of(&self, name: &str, id: &str) -> Option<MistakeOrigin> {
        let mut line = None;
        // Mistakes in the rest of the document do not matter here.
        let _ = self.groups(|group| {
            let mut ids = group
                .ids
                .iter()
                .filter(|listed| group.name == name && listed.id == id);
            line = line.or_else(|| ids.next().map(|listed| listed.line));
            Ok(())
        });
        line.map(|line| MistakeOrigin {
            place: self.place.clone(),
            line: Some(line),
        })
    }

    /// Passes the tree to `read`, and adds this document to errors.
    fn parse(
        &self,
        read: impl FnOnce(&Node<'_>) -> Result<(), LimitsError>,
    ) -> Result<(), LimitsError> {
        // Some editors write a byte order mark.
        let text = self.text.strip_prefix('\u{feff}').unwrap_or(&self.text);
        let parsed = self.language.parse(text).and_then(|node| read(&node));
        parsed.map_err(|error| error.within(&self.place))
    }
}
