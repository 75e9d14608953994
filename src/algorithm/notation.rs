//! How limits are written: in one line, and as the fields of a file.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};

use super::{limit_error::NotationError, line};
use crate::id::shortened;

/// The notation of an algorithm's limits.
pub(crate) trait Notation: Sized {
    /// The fields of a file that only this algorithm has. Any of them marks a limit as one of this algorithm.
    const FIELDS: &'static [&'static str];

    /// The main ones, in words.
    const WORDS: &'static str;

    /// More fields, which do not mark a limit, each with the reason why other algorithms do not have it.
    const OPTIONS: &'static [(&'static str, &'static str)] = &[];

    /// Reads a limit in one line. Returns `None` if the line is not of this algorithm's form.
    fn parse(line: &str) -> Option<Result<Self, NotationError>>;

    /// Reads the fields of a file.
    fn read<F: FieldReader>(fields: &F) -> Result<Self, F::Error>;

    /// Writes what [`parse`](Self::parse) reads.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns what [`read`](Self::read) reads.
    fn values(&self) -> WrittenFields;

    /// Returns mistakes that are probable but not certain, each with the number of its tier.
    fn doubts(&self) -> Vec<(usize, &'static str)> {
        Vec::new()
    }
}

/// The fields of a limit in a file.
pub(crate) trait FieldReader: Sized {
    /// A mistake, and its place.
    type Error;

    /// Reads a field with `parse`, if it is there.
    fn parsed<T>(
        &self,
        field: &'static str,
        parse: impl FnOnce(&str) -> Result<T, NotationError>,
    ) -> Result<Option<T>, Self::Error>;

    /// Reads a list of maps.
    fn list(
        &self,
        field: &'static str,
        of: &'static ListedFields,
    ) -> Result<Option<Vec<Self>>, Self::Error>;

    /// Creates the error for a missing field.
    fn missing(&self, field: &'static str) -> Self::Error;

    /// Creates the error for values that do not fit, at the field to change first.
    fn mistaken(&self, mistake: NotationError) -> Self::Error;

    /// A field that holds a whole number.
    fn whole(&self, field: &'static str) -> Result<Option<u32>, Self::Error> {
        self.parsed(field, |text| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|_| digits);
            number.ok_or_else(|| NotationError::Number {
                field,
                text: shortened(text),
            })
        })
    }

    /// A field that holds a duration.
    fn duration(&self, field: &'static str) -> Result<Option<Duration>, Self::Error> {
        self.parsed(field, |text| line::duration(field, text))
    }

    /// A field that holds a duration, or `infinite`.
    fn span(&self, field: &'static str) -> Result<Option<Duration>, Self::Error> {
        self.parsed(field, |text| line::span(field, text))
    }

    /// A field that holds `true` or `false`.
    fn flag(&self, field: &'static str) -> Result<bool, Self::Error> {
        let flag = self.parsed(field, |text| {
            text.parse().map_err(|_| NotationError::Flag {
                field,
                text: shortened(text),
            })
        })?;
        Ok(flag.unwrap_or(false))
    }
}

/// The fields of each map in a list.
#[derive(Debug)]
pub(crate) struct ListedFields {
    pub(crate) fields: &'static [&'static str],
    /// The list, in words.
    pub(crate) list: &'static str,
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
