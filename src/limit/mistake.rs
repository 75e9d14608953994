use std::{
    error::Error as StdError,
    fmt, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::name::{LimitName, NameError};
use crate::{
    algorithm::{LimitError, NotationError},
    id::{IdError, IdFormat, UnknownIdFormat, shortened},
    message::debug_is_message,
};

/// The error for limits that cannot be used. It has the file and line if they are known, the limit, the id, and what to
/// change. The [guide](crate::guide::limits_in_files#mistakes) has examples.
pub struct LimitsError(Box<LocatedMistake>);

debug_is_message!(LimitsError);

/// A mistake and where it is.
#[derive(Debug)]
struct LocatedMistake {
    origin: MistakeOrigin,
    limit: Option<String>,
    id: Option<String>,
    mistake: Mistake,
}

/// The source of limits.
#[derive(Clone, Debug)]
pub(super) enum Location {
    Code,
    Text,
    File(PathBuf),
}

/// A place, and a line in it.
#[derive(Clone, Debug)]
pub(super) struct MistakeOrigin {
    pub(super) place: Location,
    pub(super) line: Option<u64>,
}

impl MistakeOrigin {
    pub(super) const CODE: Self = Self {
        place: Location::Code,
        line: None,
    };
}

impl fmt::Display for MistakeOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Location::Code => f.write_str("the code")?,
            Location::Text => f.write_str("limits")?,
            Location::File(path) => path.display().fmt(f)?,
        }
        match self.line {
            Some(line) => write!(f, ":{line}"),
            None => Ok(()),
        }
    }
}

impl LimitsError {
    /// The file, or `None` for a mistake in code or in a text.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.0.origin.place {
            Location::File(path) => Some(path),
            Location::Code | Location::Text => None,
        }
    }

    /// The line in the file or text, counted from 1.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.0.origin.line
    }

    /// The limit's name.
    #[must_use]
    pub fn limit(&self) -> Option<&str> {
        self.0.limit.as_deref()
    }

    /// The id, if the mistake is in an override.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.0.id.as_deref()
    }

    /// Adds the place of the first one to the error for a second override of a client.
    pub(super) fn with_first(
        mut self,
        find: impl FnOnce(&str, &str) -> Option<MistakeOrigin>,
    ) -> Self {
        let limit = self.0.limit.as_deref().unwrap_or_default();
        // The first one can be in the code.
        let own = self.0.origin.to_string();
        if let Mistake::DuplicateOverride { first, origin } = &mut self.0.mistake {
            let is_own = |found: &MistakeOrigin| found.to_string() == own;
            *origin = find(limit, first).filter(|found| !is_own(found));
        }
        self
    }

    /// Describes the mistake, without its place.
    pub(super) fn problem(&self) -> String {
        self.0.mistake.to_string()
    }

    pub(super) fn within(mut self, place: &Location) -> Self {
        self.0.origin.place = place.clone();
        self
    }

    pub(super) fn of_limit(mut self, limit: &str) -> Self {
        self.0.limit = Some(limit.into());
        self
    }

    pub(super) fn of_id(mut self, id: &str) -> Self {
        self.0.id = Some(id.into());
        self
    }

    /// Sets the line, unless a better one is known.
    pub(super) fn at(mut self, line: u64) -> Self {
        self.0.origin.line.get_or_insert(line);
        self
    }
}

impl From<Mistake> for LimitsError {
    fn from(mistake: Mistake) -> Self {
        Self(Box::new(LocatedMistake {
            origin: MistakeOrigin::CODE,
            limit: None,
            id: None,
            mistake,
        }))
    }
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LocatedMistake {
            origin,
            limit,
            id,
            mistake,
        } = &*self.0;
        if !matches!(origin.place, Location::Code) {
            write!(f, "{origin}: ")?;
        }
        if let Some(limit) = limit {
            write!(f, "limit `{}`: ", shortened(limit))?;
        }
        match id {
            // This mistake already names the id.
            Some(id) if !matches!(mistake, Mistake::Id(_)) => {
                write!(f, "id `{}`: {mistake}", shortened(id))
            }
            _ => mistake.fmt(f),
        }
    }
}

impl StdError for LimitsError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.mistake.source()
    }
}

/// A mistake, with its remedy.
#[derive(Debug, Error)]
pub(super) enum Mistake {
    #[error("cannot read it: {0}")]
    Read(#[source] io::Error),
    #[error("it is not UTF-8: save it as UTF-8")]
    Encoding,
    #[error("its name has no known extension: use .yml, .yaml, .json or .toml")]
    Extension,
    #[cfg_attr(
        all(feature = "yaml", feature = "toml"),
        expect(dead_code, reason = "all are read")
    )]
    #[error("it needs tollgate's feature `{0}`: enable it, or write JSON")]
    Feature(&'static str),
    #[error(
        "ids in the format {0} need tollgate's feature `{1}`: enable it in Cargo.toml, or use another format"
    )]
    FormatFeature(IdFormat, &'static str),
    #[error("{0}")]
    Syntax(String),
    #[error("expected {expected}, found {found}{}", after_colon(.whole))]
    Shape {
        expected: &'static str,
        found: String,
        whole: Option<String>,
    },
    #[error("values are not written as {0}: write `{1}`")]
    OneLine(String, String),
    #[error(
        "it contains no limits, so nothing would be limited: add some, or do not load the file"
    )]
    NoLimits,
    #[error("it is empty: write {0} if no client should have an override")]
    EmptyOverrides(&'static str),
    #[error("it has no values: {0}")]
    NoValues(String),
    #[error("unknown field `{field}`: {hint}")]
    UnknownField { field: String, hint: String },
    #[error("{field} appears twice, first in line {first}: remove one of them")]
    RepeatedField { field: &'static str, first: u64 },
    #[error(
        "{field} is a field of a limit, and not a limit: indent it below the name of its limit"
    )]
    FieldWithoutName { field: String },
    #[error("the names of limits stand at the top: remove `{0}`, and the indentation below it")]
    Wrapped(String),
    #[error("a space is missing after the colon: write `{0}: …`")]
    NoSpace(String),
    #[error("{0}")]
    Line(LimitError),
    #[error("{0} is missing: {1}")]
    MissingField(&'static str, String),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Format(#[from] UnknownIdFormat),
    #[error(transparent)]
    Id(#[from] IdError),
    #[error("it is defined twice, first in {first}: remove one of them")]
    DuplicateName { first: MistakeOrigin },
    #[error(
        "it has the number {number}, which `{other}` has too: give one of them a number that no \
         limit has had before"
    )]
    DuplicateNumber { number: u32, other: String },
    #[error("{origin} has {} and id {} for it: write the same, or neither", numbered(.name), .name.format())]
    OtherName {
        name: LimitName,
        origin: MistakeOrigin,
    },
    #[error("no limit has this name: {hint}")]
    UnknownName { hint: String },
    #[error(
        "no limit has this name: did you mean `{near}`? (it is defined in {origin}: if it is misspelt, correct it there)"
    )]
    OtherSpelling { near: String, origin: MistakeOrigin },
    #[error("the override in code names `{name}`: use one spelling")]
    OtherInCode { name: String },
    #[error("it has an override already, for `{first}`{}: remove one of them", in_place(.origin))]
    DuplicateOverride {
        first: String,
        /// The place of the first one, if a file has it.
        origin: Option<MistakeOrigin>,
    },
    #[error("ids is empty, so the override applies to nobody: list its clients, or remove it")]
    NoIds,
    #[error("the key of an override is `{0}`: write the limit's name, a colon and an id")]
    OverrideKey(String),
    #[error(transparent)]
    Values(#[from] NotationError),
    #[error("it mixes {0} with {1}, which are different kinds of limit: keep one of them")]
    SeveralKinds(&'static str, String),
    #[error("{field} is only for {kind}, because {reason}: remove it")]
    OtherKind {
        field: &'static str,
        kind: String,
        reason: &'static str,
    },
    #[error("docs is `{0}`: write a link with its scheme, such as `https://example.com/limits`")]
    Docs(String),
    #[error("lease is `{text}`: {source}")]
    Lease { text: String, source: LimitError },
}

impl Mistake {
    /// Creates the error for the mistake in a line.
    pub(super) fn at(self, line: u64) -> LimitsError {
        LimitsError::from(self).at(line)
    }

    /// Creates the mistake for an unexpected value, with the expected one.
    pub(super) fn shape(
        expected: &'static str,
        found: &impl fmt::Display,
        whole: Option<String>,
    ) -> Self {
        Self::Shape {
            expected,
            found: found.to_string(),
            whole,
        }
    }

    pub(super) fn unknown_field(field: &str, hint: impl Into<String>) -> Self {
        Self::UnknownField {
            field: shortened(field),
            hint: hint.into(),
        }
    }
}

fn after_colon(text: &Option<String>) -> String {
    text.as_ref()
        .map_or_else(String::new, |text| format!(": {text}"))
}

fn in_place(origin: &Option<MistakeOrigin>) -> String {
    origin
        .as_ref()
        .map_or_else(String::new, |origin| format!(" in {origin}"))
}

fn numbered(name: &LimitName) -> String {
    name.number()
        .map_or_else(|| "no number".into(), |number| format!("number {number}"))
}
