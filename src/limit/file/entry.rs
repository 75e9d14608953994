use std::time::Duration;

use super::{
    super::{
        duration::{format_duration, parse_duration, parse_span},
        mistake::{LimitsError, Mistake, did_you_mean},
        notation::as_token_bucket,
    },
    node::{Node, Value},
};
use crate::{id::IdFormat, transaction::LeaseShare};

/// The fields for the values of a limit, of whatever kind.
const VALUES: &[&str] = &[
    "burst",
    "count",
    "period",
    "max_wait",
    "limit",
    "window",
    "quota",
    "per",
    "utc_offset",
    "tiers",
    "unlimited",
    "blocked",
];

/// The fields that are allowed below a key.
pub(super) struct AllowedFields {
    /// Whether the values of a limit are allowed.
    pub(super) has_values: bool,
    /// Other allowed fields.
    pub(super) fields: &'static [&'static str],
    /// A complete example, for errors about missing fields.
    pub(super) whole: &'static str,
    /// Fields that a user could expect here but that belong elsewhere, with the reason.
    pub(super) misplaced: &'static [(&'static str, &'static str)],
}

impl AllowedFields {
    fn fields(&self) -> impl Iterator<Item = &'static str> {
        let values = if self.has_values { VALUES } else { &[] };
        values.iter().chain(self.fields).copied()
    }

    fn field(&self, name: &str) -> Result<&'static str, Mistake> {
        if let Some(field) = self.fields().find(|field| *field == name) {
            return Ok(field);
        }
        let misplaced = self.misplaced.iter().find(|(field, _)| *field == name);
        match (misplaced, name) {
            (Some((_, hint)), _) => Err(Mistake::unknown_field(name, *hint)),
            (None, "<<") => Err(Mistake::unknown_field(name, "write the fields out")),
            (None, name) => {
                let known: Vec<_> = self.fields().collect();
                Err(Mistake::unknown_field(name, did_you_mean(name, &known)))
            }
        }
    }
}

/// The fields below a key: known ones, each once, as written.
pub(super) struct Entry<'a> {
    allowed: &'static AllowedFields,
    line: u64,
    fields: Vec<(&'static str, &'a Node<'a>)>,
}

impl<'a> Entry<'a> {
    /// The fields below a key in `line`.
    pub(super) fn new(
        allowed: &'static AllowedFields,
        line: u64,
        node: &'a Node<'a>,
    ) -> Result<Self, LimitsError> {
        let entries = match &node.value {
            Value::Map(entries) => entries,
            Value::Nothing => return Err(Mistake::NoValues(allowed.whole).at(line)),
            value => {
                let mistake = match written_out(value).filter(|_| allowed.has_values) {
                    Some(fields) => Mistake::OneLine(value.to_string(), format!("{{{fields}}}")),
                    None => Mistake::shape("a map", value, Some(allowed.whole)),
                };
                return Err(mistake.at(node.line));
            }
        };
        let mut fields: Vec<(&'static str, _)> =
            Vec::with_capacity(entries.len().min(allowed.fields().count()));
        for (key, node) in entries {
            let field = allowed.field(&key.text).map_err(|mistake| {
                let fields = written_out(&node.value).filter(|_| allowed.has_values);
                let instead =
                    |fields| Mistake::unknown_field(&key.text, format!("write `{fields}` instead"));
                fields.map_or(mistake, instead).at(key.line)
            })?;
            if fields.iter().any(|(other, _)| *other == field) {
                return Err(Mistake::RepeatedField(field).at(key.line));
            }
            fields.push((field, node));
        }
        Ok(Self {
            allowed,
            line,
            fields,
        })
    }

    /// Returns the line of a field or, if it is missing, of the whole entry.
    pub(super) fn line_of(&self, field: &str) -> u64 {
        self.get(field).map_or(self.line, |node| node.line)
    }

    pub(super) fn get(&self, field: &str) -> Option<&'a Node<'a>> {
        let found = self.fields.iter().find(|(name, _)| *name == field);
        found.map(|(_, node)| *node)
    }

    /// Creates the error for a missing field.
    pub(super) fn missing(&self, field: &'static str) -> LimitsError {
        Mistake::MissingField(field, self.allowed.whole).at(self.line)
    }

    /// A field that holds a whole number.
    pub(super) fn whole(&self, field: &'static str) -> Result<Option<u32>, LimitsError> {
        self.parsed(field, |text| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|_| digits);
            number.ok_or_else(|| Mistake::number(field, text))
        })
    }

    /// A field that holds a text.
    pub(super) fn text(&self, field: &'static str) -> Result<Option<&'a str>, LimitsError> {
        self.get(field).map(text).transpose()
    }

    /// The field that names a format of ids.
    pub(super) fn format(&self) -> Result<Option<IdFormat>, LimitsError> {
        self.parsed("id", |text| Ok(text.parse::<IdFormat>()?))
    }

    /// A field that holds a duration, or `infinite`.
    pub(super) fn span(&self, field: &'static str) -> Result<Option<Duration>, LimitsError> {
        self.parsed(field, |text| {
            parse_span(text).map_err(Mistake::duration(field))
        })
    }

    /// A field that holds `true` or `false`.
    pub(super) fn flag(&self, field: &'static str) -> Result<bool, LimitsError> {
        let flag = self.parsed(field, |text| {
            text.parse().map_err(|_| Mistake::flag(field, text))
        })?;
        Ok(flag.unwrap_or(false))
    }

    /// The field that holds the share of a lease.
    pub(super) fn lease(&self) -> Result<Option<LeaseShare>, LimitsError> {
        self.parsed("lease", |text| {
            text.parse().map_err(|source| Mistake::lease(text, source))
        })
    }

    /// A field that holds a duration.
    pub(super) fn duration(&self, field: &'static str) -> Result<Option<Duration>, LimitsError> {
        self.parsed(field, |text| {
            parse_duration(text).map_err(Mistake::duration(field))
        })
    }

    /// Reads a field with `parse`.
    pub(super) fn parsed<T>(
        &self,
        field: &str,
        parse: impl FnOnce(&str) -> Result<T, Mistake>,
    ) -> Result<Option<T>, LimitsError> {
        let Some(node) = self.get(field) else {
            return Ok(None);
        };
        let parsed = parse(text(node)?);
        parsed.map(Some).map_err(|mistake| mistake.at(node.line))
    }
}

/// The fields of a limit that is written in one line.
fn written_out(value: &Value<'_>) -> Option<String> {
    let Value::Text(text) = value else {
        return None;
    };
    let values = as_token_bucket(text)?;
    let (burst, count) = (values.burst(), values.count());
    let period = format_duration(values.period());
    let max_wait = match values.max_wait() {
        wait if wait.is_zero() => String::new(),
        wait => format!(", max_wait: {}", format_duration(wait)),
    };
    Some(format!(
        "burst: {burst}, count: {count}, period: {period}{max_wait}"
    ))
}

/// The text of a node that is a scalar.
pub(super) fn text<'a>(node: &'a Node<'_>) -> Result<&'a str, LimitsError> {
    match &node.value {
        Value::Text(text) => Ok(text),
        value => Err(Mistake::shape("a single value", value, None).at(node.line)),
    }
}
