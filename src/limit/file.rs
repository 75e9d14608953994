//! The defaults file: a map from limit names to their values.

use std::{
    cell::RefCell,
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_saphyr::{SnippetMode, Spanned, UserMessageFormatter};
use thiserror::Error;

use super::{
    duration::{DurationError, parse_duration},
    limit::Limit,
    limits::NamedLimit,
    name::{LimitName, NameError},
};
use crate::gcra::GcraError;

const FIELDS: [&str; 5] = ["burst", "count", "period", "number", "id"];

/// Reads a defaults file.
pub(super) fn read(path: &Path) -> Result<Vec<NamedLimit>, FileError> {
    let text = fs::read_to_string(path).map_err(|error| FileError::from(Kind::Read(error)));
    text.and_then(|text| parse(&text))
        .map_err(|error| FileError {
            path: Some(path.into()),
            ..error
        })
}

/// Reads the text of a defaults file.
pub(super) fn parse(text: &str) -> Result<Vec<NamedLimit>, FileError> {
    let reached = RefCell::default();
    let names = Names { reached: &reached };
    let entries = serde_saphyr::with_deserializer_from_str(text, |yaml| names.deserialize(yaml))
        .map_err(|error| FileError {
            limit: reached.take(),
            ..error.into()
        })?;
    if entries.is_empty() {
        return Err(Kind::Empty.into());
    }
    entries
        .into_iter()
        .map(|(name, entry)| named(&name, entry))
        .collect()
}

fn named(name: &Spanned<String>, mut entry: Entry) -> Result<NamedLimit, FileError> {
    let at = |(line, kind)| FileError {
        path: None,
        line: Some(line),
        limit: Some(name.value.clone()),
        kind: Box::new(kind),
    };
    if let Some(fault) = entry.fault.take() {
        return Err(at(fault));
    }
    entry.refuse_unbuilt().map_err(at)?;
    let label = match entry.whole("number").map_err(at)? {
        Some(number) => LimitName::numbered(&name.value, number),
        None => LimitName::new(&name.value),
    };
    let line = name.referenced.line();
    label.validate().map_err(|error| at((line, error.into())))?;
    let limit = entry.limit(line).map_err(at)?;
    Ok(NamedLimit { name: label, limit })
}

/// Reads the names in a file with their entries, and keeps the name that it has reached.
struct Names<'a> {
    reached: &'a RefCell<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = Vec<(Spanned<String>, Entry)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = Vec<(Spanned<String>, Entry)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from limit names to `{burst, count, period}`")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<Spanned<String>>()? {
            self.reached.replace(Some(name.value.clone()));
            let entry = map.next_value::<Option<Entry>>()?;
            let line = name.referenced.line();
            self.reached.take();
            entries.push((
                name,
                entry.unwrap_or_else(|| Entry::faulty(line, Kind::NoValues)),
            ));
        }
        Ok(entries)
    }
}

/// What stands below a name: fields as they are written, and what is wrong with others.
#[derive(Default)]
struct Entry {
    fields: Vec<(&'static str, Spanned<Text>)>,
    fault: Option<Fault>,
}

/// What is wrong, and in which line.
type Fault = (u64, Kind);

impl Entry {
    fn faulty(line: u64, kind: Kind) -> Self {
        Self {
            fields: Vec::new(),
            fault: Some((line, kind)),
        }
    }

    fn get(&self, field: &str) -> Option<&Spanned<Text>> {
        self.fields
            .iter()
            .find(|(name, _)| *name == field)
            .map(|(_, text)| text)
    }

    fn refuse_unbuilt(&self) -> Result<(), Fault> {
        match self.get("id") {
            Some(text) if text.value.0 != "opaque" => Err((
                text.referenced.line(),
                Kind::NotBuiltIn("id formats other than `opaque`"),
            )),
            _ => Ok(()),
        }
    }

    /// The limit of an entry that begins at `line`, or `None` if it has no values.
    fn limit(&self, line: u64) -> Result<Option<Limit>, Fault> {
        let missing = |field| Err((line, Kind::Missing(field)));
        match (self.whole("burst")?, self.whole("count")?, self.period()?) {
            (None, None, None) => Ok(None),
            (None, _, _) => missing("burst"),
            (_, None, _) => missing("count"),
            (_, _, None) => missing("period"),
            (Some(burst), Some(count), Some(period)) => {
                let limit = Limit::new(burst, count, period);
                limit.map(Some).map_err(|error| (line, Kind::Gcra(error)))
            }
        }
    }

    fn whole(&self, field: &'static str) -> Result<Option<u32>, Fault> {
        let Some(text) = self.get(field) else {
            return Ok(None);
        };
        let number = |text: &str| Kind::Number {
            field,
            text: text.into(),
        };
        let parsed = text.value.0.parse();
        parsed
            .map(Some)
            .map_err(|_| (text.referenced.line(), number(&text.value.0)))
    }

    fn period(&self) -> Result<Option<Duration>, Fault> {
        let Some(text) = self.get("period") else {
            return Ok(None);
        };
        let parsed = parse_duration(&text.value.0);
        parsed
            .map(Some)
            .map_err(|error| (text.referenced.line(), Kind::Duration(error)))
    }
}

/// A scalar as it is written.
struct Text(String);

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Entry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a map of `burst`, `count` and `period`, or `{}` for a name without values",
                )
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut entry = Entry::default();
                while let Some(name) = map.next_key::<Spanned<String>>()? {
                    match FIELDS.into_iter().find(|field| *field == name.value) {
                        Some(field) => entry.fields.push((field, map.next_value()?)),
                        None => {
                            map.next_value::<IgnoredAny>()?;
                            let fault = (name.referenced.line(), unknown(&name.value));
                            entry.fault.get_or_insert(fault);
                        }
                    }
                }
                Ok(entry)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

/// Says which field was meant, if one is near.
fn unknown(name: &str) -> Kind {
    if name == "tiers" {
        return Kind::NotBuiltIn("tiers");
    }
    let near = FIELDS
        .into_iter()
        .map(|field| {
            (
                strsim::damerau_levenshtein(field, &name.to_ascii_lowercase()),
                field,
            )
        })
        .min()
        .filter(|(distance, field)| *distance <= field.len() / 2);
    let hint = match near {
        Some((_, field)) => format!("did you mean `{field}`?"),
        None => format!("fields are {}", FIELDS.join(", ")),
    };
    Kind::UnknownField {
        field: name.into(),
        hint,
    }
}

/// Why a file of limits cannot be used: the file, the line where it is known, the limit, and what
/// to change.
#[derive(Debug)]
pub struct FileError {
    path: Option<PathBuf>,
    line: Option<u64>,
    limit: Option<String>,
    kind: Box<Kind>,
}

#[derive(Debug, Error)]
enum Kind {
    #[error("cannot read it: {0}")]
    Read(#[source] io::Error),
    #[error("{}", message(.0))]
    Yaml(#[source] serde_saphyr::Error),
    #[error("it names no limits, so nothing would be limited: add some, or leave the file out")]
    Empty,
    #[error("{0}")]
    Gcra(#[source] GcraError),
    #[error("{0}")]
    Duration(#[source] DurationError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("unknown field `{field}`: {hint}")]
    UnknownField { field: String, hint: String },
    #[error(
        "it has no values: indent burst, count and period below it, or write `{{}}` for a name \
         that is not limited"
    )]
    NoValues,
    #[error("{field} is `{text}`: use a whole number up to 4294967295")]
    Number { field: &'static str, text: String },
    #[error("{0} is missing: a limit has burst, count and period")]
    Missing(&'static str),
    #[error("{0} are not built in yet")]
    NotBuiltIn(&'static str),
}

/// The parser's message for people, without the line that stands before it anyway.
fn message(error: &serde_saphyr::Error) -> String {
    let options = serde_saphyr::render_options! {
        formatter: &UserMessageFormatter,
        snippets: SnippetMode::Off,
    };
    let position = error.location().map_or_else(String::new, |location| {
        format!(" at line {}, column {}", location.line(), location.column())
    });
    error
        .render_with_options(options)
        .replace(&position, "")
        .replace("mapping start", "a map of `name: value` lines")
        .replace("string scalar", "a single value")
        .replace("null is not allowed here", "a value is missing")
}

impl From<Kind> for FileError {
    fn from(kind: Kind) -> Self {
        Self {
            path: None,
            line: None,
            limit: None,
            kind: Box::new(kind),
        }
    }
}

impl From<serde_saphyr::Error> for FileError {
    fn from(error: serde_saphyr::Error) -> Self {
        let line = error.location().map(|location| location.line());
        Self {
            line,
            ..Kind::Yaml(error).into()
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}", path.display())?,
            None => f.write_str("limits")?,
        }
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(limit) = &self.limit {
            write!(f, ": limit `{limit}`")?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kind.source()
    }
}
