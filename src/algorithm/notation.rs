//! How limits are written: as the fields of a file, and in one line such as `5 in any 15m`.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{Algorithm, LimitError, duration::duration};
use crate::id::shortened;

/// The notation of an algorithm's limits.
pub(crate) trait Notation: Sized {
    const FIELDS: AlgorithmFields;

    /// Reads the fields. Returns `None` if they have a mistake.
    fn read<F: FieldReader>(fields: &F) -> Option<Self>;

    /// Reads a limit in one line, as `Display` writes it or in a shorter form. The line starts with a number, and has a single
    /// space between its words. Returns `None` if it has the form of another algorithm, or of none.
    fn parse(line: &str) -> Result<Option<Algorithm>, LimitError>;
}

/// The fields of an algorithm's limits in a file.
#[derive(Debug)]
pub(crate) struct AlgorithmFields {
    /// The fields that only this algorithm has. Any of them marks a limit as one of this algorithm.
    pub(crate) fields: &'static [&'static str],
    /// The main fields, in words.
    pub(crate) words: &'static str,
    /// More fields, which do not mark a limit, each with the reason why other algorithms do not have it.
    pub(crate) options: &'static [(&'static str, &'static str)],
}

/// Reads the fields of a limit. It records each mistake, so that users see all of them at once, and returns `None` for a field that
/// is missing or mistaken.
pub(crate) trait FieldReader: Sized {
    /// Returns a field that holds a single value.
    fn text(&self, field: &'static str) -> Option<&str>;

    /// Returns the maps in a list.
    fn list(&self, field: &'static str, of: &'static MapForm) -> Option<Vec<Self>>;

    /// Records which of these fields are missing.
    fn require(&self, fields: &[&'static str]);

    /// Records a mistake at its field.
    fn mistaken(&self, mistake: LimitError);

    /// Records the mistake, if there is one.
    fn checked<T>(&self, value: Result<T, impl Into<LimitError>>) -> Option<T> {
        value.map_err(|mistake| self.mistaken(mistake.into())).ok()
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
        self.parsed(field, |text| whole(field, text))
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

/// The fields of a limit with their values, in the order of a file.
#[derive(Debug, Default)]
pub(crate) struct WrittenFields {
    fields: Vec<(&'static str, FieldValue)>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum FieldValue {
    Number(u32),
    Text(String),
    Flag(bool),
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
        if is_set {
            self.with(field, FieldValue::Flag(true))
        } else {
            self
        }
    }

    pub(super) fn maps(self, field: &'static str, maps: Vec<Self>) -> Self {
        self.with(field, FieldValue::Maps(maps))
    }

    fn with(mut self, field: &'static str, value: FieldValue) -> Self {
        self.fields.push((field, value));
        self
    }

    /// Returns the fields in one line; `None` if they need more.
    pub(crate) fn in_one_line(&self) -> Option<String> {
        let fields = self.fields.iter().map(|(field, value)| match value {
            FieldValue::Number(number) => Some(format!("{field}: {number}")),
            FieldValue::Text(text) => Some(format!("{field}: {text}")),
            FieldValue::Flag(flag) => Some(format!("{field}: {flag}")),
            FieldValue::Maps(_) => None,
        });
        Some(fields.collect::<Option<Vec<_>>>()?.join(", "))
    }
}

impl Serialize for WrittenFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields.iter().map(|(field, value)| (field, value)))
    }
}

/// Reads a whole number.
pub(super) fn whole(field: &'static str, text: &str) -> Result<u32, LimitError> {
    let number = text.parse().ok().filter(|_| is_number(text));
    number.ok_or_else(|| {
        let text = shortened(text);
        let remedy = "use a whole number up to 4294967295, in digits only";
        LimitError::value(field, format!("{field} is `{text}`: {remedy}"))
    })
}

/// Returns whether a text consists of digits.
pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reads a duration in one line. Unlike in a file, it can be a word.
pub(super) fn duration_or_word(field: &'static str, text: &str) -> Result<Duration, LimitError> {
    let secs = match text {
        "s" | "sec" | "second" => 1,
        "m" | "min" | "minute" => 60,
        "h" | "hour" => 60 * 60,
        "d" | "day" => 24 * 60 * 60,
        "week" | "month" => {
            return Err(LimitError::text(format!("write `per calendar {text}`")));
        }
        _ => return duration(field, text),
    };
    Ok(Duration::from_secs(secs))
}

/// Splits a line in front of its optional end, which starts with these words. Returns what follows them.
pub(super) fn split_option<'a>(line: &'a str, words: &str) -> (&'a str, Option<&'a str>) {
    match line.rsplit_once(words) {
        Some((start, value)) => (start, Some(value)),
        None => (line, None),
    }
}
