//! How limits are written: in one line, and as the fields of a file.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};

use super::{LimitError, duration::read_duration};
use crate::id::shortened;

/// The notation of an algorithm's limits.
pub(crate) trait Notation: Sized {
    /// The fields of a file.
    const FORM: Form;

    /// Reads a limit in one line. Returns `None` if the line is not of this algorithm's form.
    fn parse(line: &str) -> Option<Result<Self, LimitError>>;

    /// Reads the fields of a file. Returns `None` if they have a mistake.
    fn read<F: FieldReader>(fields: &F) -> Option<Self>;

    /// Writes what [`parse`](Self::parse) reads.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns what [`read`](Self::read) reads.
    fn values(&self) -> WrittenFields;
}

/// The fields of an algorithm's limits in a file.
#[derive(Debug)]
pub(crate) struct Form {
    /// The fields that only this algorithm has. Any of them marks a limit as one of this algorithm.
    pub(crate) fields: &'static [&'static str],
    /// The main ones, in words.
    pub(crate) words: &'static str,
    /// More fields, which do not mark a limit, each with the reason why other algorithms do not have it.
    pub(crate) options: &'static [(&'static str, &'static str)],
}

/// The fields of a limit in a file. It records every mistake, so that a user sees all of them at once. A field that is
/// missing or mistaken is `None`.
pub(crate) trait FieldReader: Sized {
    /// Returns a field that holds a single value.
    fn text(&self, field: &'static str) -> Option<&str>;

    /// Returns the maps in a list.
    fn list(&self, field: &'static str, of: &'static MapForm) -> Option<Vec<Self>>;

    /// Records which of these fields are missing.
    fn require(&self, fields: &[&'static str]);

    /// Records a mistake, at the field to change first.
    fn mistaken(&self, mistake: LimitError);

    /// Records the mistake, if there is one.
    fn checked<T>(&self, value: Result<T, LimitError>) -> Option<T> {
        value.map_err(|mistake| self.mistaken(mistake)).ok()
    }

    /// Reads a field with `parse`.
    fn parsed<T>(
        &self,
        field: &'static str,
        parse: impl FnOnce(&str) -> Result<T, LimitError>,
    ) -> Option<T> {
        self.checked(parse(self.text(field)?))
    }

    /// Reads a whole number.
    fn whole(&self, field: &'static str) -> Option<u32> {
        self.parsed(field, |text| {
            let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|_| is_whole);
            number.ok_or_else(|| {
                let text = shortened(text);
                let remedy = "use a whole number up to 4294967295, in digits only";
                LimitError::value(field, format!("{field} is `{text}`: {remedy}"))
            })
        })
    }

    /// Reads a duration.
    fn duration(&self, field: &'static str) -> Option<Duration> {
        self.parsed(field, |text| duration(field, text))
    }

    /// Reads `true` or `false`.
    fn flag(&self, field: &'static str) -> Option<bool> {
        self.parsed(field, |text| {
            text.parse().map_err(|_| {
                let text = shortened(text);
                LimitError::value(field, format!("{field} is `{text}`: write true or false"))
            })
        })
    }
}

/// The fields that are allowed in a map.
#[derive(Debug)]
pub(crate) struct MapForm {
    pub(crate) fields: &'static [&'static str],
    /// Whether the values of a limit are allowed too.
    pub(crate) has_values: bool,
    /// The list or map around it, in words.
    pub(crate) around: &'static str,
    /// A complete map, in words.
    pub(crate) whole: &'static str,
    /// Fields that a user could expect but that do not exist, with the reason.
    pub(crate) misplaced: &'static [(&'static str, &'static str)],
}

/// The fields of a limit for a file, with their values, in order.
#[derive(Debug, Default)]
pub(crate) struct WrittenFields(Vec<(&'static str, FieldValue)>);

#[derive(Debug)]
enum FieldValue {
    Number(u32),
    Text(String),
    True,
    Maps(Vec<WrittenFields>),
}

impl WrittenFields {
    pub(super) fn number(self, field: &'static str, number: u32) -> Self {
        self.with(field, FieldValue::Number(number))
    }

    /// Adds a text. `None` leaves the field out.
    pub(super) fn text(self, field: &'static str, text: impl Into<Option<String>>) -> Self {
        match text.into() {
            Some(text) => self.with(field, FieldValue::Text(text)),
            None => self,
        }
    }

    /// Adds a field that is true, or leaves it out.
    pub(crate) fn flag(self, field: &'static str, is_set: bool) -> Self {
        match is_set {
            true => self.with(field, FieldValue::True),
            false => self,
        }
    }

    pub(super) fn maps(self, field: &'static str, maps: Vec<Self>) -> Self {
        self.with(field, FieldValue::Maps(maps))
    }

    fn with(mut self, field: &'static str, value: FieldValue) -> Self {
        self.0.push((field, value));
        self
    }

    /// Returns the fields in one line; `None` if they need more.
    pub(crate) fn in_one_line(&self) -> Option<String> {
        let fields = self.0.iter().map(|(field, value)| {
            Some(match value {
                FieldValue::Number(number) => format!("{field}: {number}"),
                FieldValue::Text(text) => format!("{field}: {text}"),
                FieldValue::True => format!("{field}: true"),
                FieldValue::Maps(_) => return None,
            })
        });
        Some(fields.collect::<Option<Vec<_>>>()?.join(", "))
    }
}

impl Serialize for WrittenFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(field, value)| (field, value)))
    }
}

impl Serialize for FieldValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u32(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::True => serializer.serialize_bool(true),
            Self::Maps(maps) => maps.serialize(serializer),
        }
    }
}

/// The words for periods. All other periods are durations, such as `15m`.
const PERIODS: [(&[&str], u64); 4] = [
    (&["s", "sec", "second"], 1),
    (&["m", "min", "minute"], 60),
    (&["h", "hour"], 60 * 60),
    (&["d", "day"], 24 * 60 * 60),
];

/// Creates the error for a line of another form.
pub(super) fn form() -> LimitError {
    LimitError::text(
        "write it as `10/s burst 20`, `5 per 15m`, `5 in any 15m`, `1000 per calendar day` or `4 at once`",
    )
}

/// Creates the error for a line that should be written in another form.
pub(super) fn instead(line: impl fmt::Display) -> LimitError {
    LimitError::text(format!("write `{line}`"))
}

/// Takes a number off the front of a line.
pub(super) fn number(text: &str) -> Result<(u32, &str), LimitError> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    match text.split_at(end) {
        ("", _) => Err(form()),
        (number, rest) => {
            let number = number.parse();
            let number = number.map_err(|_| LimitError::text("use numbers up to 4294967295"))?;
            Ok((number, rest.trim_start()))
        }
    }
}

/// Returns what follows a word at the front, if the text begins with this word and a space.
pub(super) fn after_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(word)?;
    rest.starts_with(' ').then(|| rest.trim_start())
}

/// Returns what follows `/` or `per` at the front.
pub(super) fn after_per(text: &str) -> Option<&str> {
    text.strip_prefix('/')
        .map(str::trim_start)
        .or_else(|| after_word(text, "per"))
}

/// Reads a period: a word, or a duration.
pub(super) fn period(field: &'static str, word: &str) -> Result<Duration, LimitError> {
    if word.is_empty() {
        return Err(form());
    }
    let known = PERIODS.iter().find(|(words, _)| words.contains(&word));
    match known {
        Some((_, secs)) => Ok(Duration::from_secs(*secs)),
        None => duration(field, word),
    }
}

/// Reads a duration.
pub(super) fn duration(field: &'static str, text: &str) -> Result<Duration, LimitError> {
    read_duration(text).map_err(|mistake| LimitError::value(field, format!("{field}: {mistake}")))
}
