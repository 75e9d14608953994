use std::time::Duration;

use super::{
    super::{
        duration::parse_duration,
        limit::Limit,
        mistake::{LimitsError, Mistake, did_you_mean},
    },
    node::{Node, Value},
};
use crate::id::IdFormat;

/// What stands below a limit's name: known fields, each once, as they are written.
pub(super) struct Entry<'a> {
    line: u64,
    fields: Vec<(&'static str, &'a Node<'a>)>,
}

impl<'a> Entry<'a> {
    /// The fields below a name in `line`.
    pub(super) fn new(
        line: u64,
        node: &'a Node<'a>,
        known: &[&'static str],
    ) -> Result<Self, LimitsError> {
        let entries = match &node.value {
            Value::Map(entries) => entries,
            Value::Nothing => return Err(LimitsError::from(Mistake::NoValues).at(line)),
            value => {
                let expected = "a map of burst, count and period";
                return Err(shape(expected, value).at(node.line));
            }
        };
        let mut fields: Vec<(&'static str, _)> = Vec::with_capacity(entries.len());
        for (key, node) in entries {
            let field = field(&key.text, known)
                .map_err(|mistake| LimitsError::from(mistake).at(key.line))?;
            if fields.iter().any(|(other, _)| *other == field) {
                return Err(LimitsError::from(Mistake::RepeatedField(field)).at(key.line));
            }
            fields.push((field, node));
        }
        Ok(Self { line, fields })
    }

    pub(super) fn get(&self, field: &str) -> Option<&'a Node<'a>> {
        let found = self.fields.iter().find(|(name, _)| *name == field);
        found.map(|(_, node)| *node)
    }

    /// The values, or `None` if there are none.
    pub(super) fn limit(&self) -> Result<Option<Limit>, LimitsError> {
        let missing = |field| {
            let mistake = Mistake::MissingField(field, "a limit has burst, count and period");
            Err(LimitsError::from(mistake).at(self.line))
        };
        match (self.whole("burst")?, self.whole("count")?, self.period()?) {
            (None, None, None) => Ok(None),
            (None, _, _) => missing("burst"),
            (_, None, _) => missing("count"),
            (_, _, None) => missing("period"),
            (Some(burst), Some(count), Some(period)) => {
                let limit = Limit::new(burst, count, period);
                let limit =
                    limit.map_err(|error| LimitsError::from(Mistake::from(error)).at(self.line))?;
                Ok(Some(limit))
            }
        }
    }

    /// A field that holds a whole number.
    pub(super) fn whole(&self, field: &'static str) -> Result<Option<u32>, LimitsError> {
        self.parsed(field, |text| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|_| digits);
            let text = text.into();
            number.ok_or(Mistake::Number { field, text })
        })
    }

    /// The field that names a format of ids.
    pub(super) fn format(&self) -> Result<Option<IdFormat>, LimitsError> {
        self.parsed("id", |text| Ok(text.parse::<IdFormat>()?))
    }

    fn period(&self) -> Result<Option<Duration>, LimitsError> {
        self.parsed("period", |text| Ok(parse_duration(text)?))
    }

    fn parsed<T>(
        &self,
        field: &str,
        parse: impl FnOnce(&str) -> Result<T, Mistake>,
    ) -> Result<Option<T>, LimitsError> {
        let Some(node) = self.get(field) else {
            return Ok(None);
        };
        let parsed = parse(text(node)?);
        parsed
            .map(Some)
            .map_err(|mistake| LimitsError::from(mistake).at(node.line))
    }
}

/// The text of a node that is a scalar.
pub(super) fn text<'a>(node: &'a Node<'_>) -> Result<&'a str, LimitsError> {
    match &node.value {
        Value::Text(text) => Ok(text),
        value => Err(shape("a single value", value).at(node.line)),
    }
}

pub(super) fn shape(expected: &'static str, found: &Value<'_>) -> LimitsError {
    let found = found.to_string();
    Mistake::Shape { expected, found }.into()
}

fn field(name: &str, known: &[&'static str]) -> Result<&'static str, Mistake> {
    if name == "tiers" {
        return Err(Mistake::NotBuiltIn("tiers"));
    }
    let field = known.iter().find(|field| **field == name);
    field.copied().ok_or_else(|| Mistake::UnknownField {
        field: name.into(),
        hint: did_you_mean(name, known),
    })
}
