//! The defaults file: a map from limit names to their values.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_saphyr::Spanned;
use thiserror::Error;

use super::{
    duration::{DurationError, parse_duration},
    limit::Limit,
    limits::NamedLimit,
    name::LimitName,
};
use crate::gcra::GcraError;

const FIELDS: [&str; 6] = ["burst", "count", "period", "number", "id", "tiers"];

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
    let Defaults(entries) = serde_saphyr::from_str(text).map_err(FileError::from)?;
    entries
        .into_iter()
        .map(|(name, entry)| named(&name, &entry))
        .collect()
}

fn named(name: &Spanned<String>, entry: &Entry) -> Result<NamedLimit, FileError> {
    let at = |(line, kind)| FileError {
        path: None,
        line: Some(line),
        limit: Some(name.value.clone()),
        kind: Box::new(kind),
    };
    entry.refuse_unbuilt().map_err(at)?;
    let label = match entry.whole("number").map_err(at)? {
        Some(number) => LimitName::numbered(&name.value, number),
        None => LimitName::new(&name.value),
    };
    let limit = entry.limit(name.referenced.line()).map_err(at)?;
    Ok(NamedLimit { name: label, limit })
}

/// A file, not yet looked at: names and fields as they stand there.
struct Defaults(Vec<(Spanned<String>, Entry)>);

struct Entry(Vec<(&'static str, Spanned<Text>)>);

/// What is wrong, and in which line.
type Fault = (u64, Kind);

impl Entry {
    fn get(&self, field: &str) -> Option<&Spanned<Text>> {
        self.0
            .iter()
            .find(|(name, _)| *name == field)
            .map(|(_, text)| text)
    }

    fn refuse_unbuilt(&self) -> Result<(), Fault> {
        if let Some(text) = self.get("tiers") {
            return Err((text.referenced.line(), Kind::NotBuiltIn("tiers")));
        }
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

impl<'de> Deserialize<'de> for Defaults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = Defaults;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from limit names to `{burst, count, period}`")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Defaults(entries))
            }
        }

        deserializer.deserialize_map(Names)
    }
}

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
                let mut fields = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    let field = FIELDS.into_iter().find(|field| *field == name);
                    let field = field.ok_or_else(|| M::Error::custom(unknown(&name)))?;
                    fields.push((field, map.next_value()?));
                }
                Ok(Entry(fields))
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
fn unknown(name: &str) -> String {
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
    match near {
        Some((_, field)) => format!("unknown field `{name}`: did you mean `{field}`?"),
        None => format!("unknown field `{name}`: fields are {}", FIELDS.join(", ")),
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
    #[error("{0}")]
    Yaml(#[source] serde_saphyr::Error),
    #[error("{0}")]
    Gcra(#[source] GcraError),
    #[error("{0}")]
    Duration(#[source] DurationError),
    #[error("{field} is `{text}`: use a whole number up to 4294967295")]
    Number { field: &'static str, text: String },
    #[error("{0} is missing: a limit has burst, count and period")]
    Missing(&'static str),
    #[error("{0} are not built in yet")]
    NotBuiltIn(&'static str),
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
