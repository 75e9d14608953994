use std::{iter, sync::LazyLock};

use super::{
    super::{
        mistake::{LimitsError, Mistake},
        notation::WORDS,
    },
    node::{Node, Value},
};
use crate::{
    algorithm::{Algorithm, AlgorithmKey, FieldReader, ListedFields, NotationError},
    backend::LeaseShare,
    id::{IdFormat, shortened},
    spelling::did_you_mean,
};

/// The fields for the values of a limit. Several algorithms can have an option.
static VALUES: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let mut fields = Vec::new();
    for key in AlgorithmKey::ALL {
        fields.extend(key.fields());
        for (option, _) in key.options() {
            if !fields.contains(option) {
                fields.push(option);
            }
        }
    }
    fields.extend(WORDS.iter().map(|(field, _)| *field));
    fields
});

/// The fields that are allowed below a key.
#[derive(Clone, Copy)]
pub(super) struct AllowedFields {
    /// Whether the values of a limit are allowed.
    pub(super) has_values: bool,
    /// Other allowed fields.
    pub(super) fields: &'static [&'static str],
    /// What to write, for errors about missing fields.
    pub(super) whole: &'static str,
    /// Fields that a user could expect here but that belong elsewhere, with the reason.
    pub(super) misplaced: &'static [(&'static str, &'static str)],
}

impl AllowedFields {
    fn fields(&self) -> impl Iterator<Item = &'static str> {
        let values: &[_] = if self.has_values { &VALUES } else { &[] };
        values.iter().chain(self.fields).copied()
    }

    /// Returns the field in a text such as `burst:20`, which YAML does not split.
    fn without_space(&self, text: &str) -> Option<&'static str> {
        let (field, rest) = text.split_once(':')?;
        let is_joined = !rest.starts_with(char::is_whitespace);
        self.fields().find(|known| *known == field && is_joined)
    }

    /// Returns the field of this name.
    pub(super) fn known(&self, name: &str) -> Option<&'static str> {
        self.fields().find(|field| *field == name)
    }

    fn field(&self, name: &str) -> Result<&'static str, Mistake> {
        if let Some(field) = self.known(name) {
            return Ok(field);
        }
        let misplaced = self.misplaced.iter().find(|(field, _)| *field == name);
        match (misplaced, name) {
            (Some((_, hint)), _) => Err(Mistake::unknown_field(name, *hint)),
            (None, "<<") => Err(Mistake::unknown_field(name, "write the fields out")),
            (None, name) => Err(match self.without_space(name) {
                Some(field) => Mistake::NoSpace(field.into()),
                None => {
                    let known: Vec<_> = self.fields().collect();
                    Mistake::unknown_field(name, did_you_mean(name, &known))
                }
            }),
        }
    }
}

/// The fields below a key: known ones, each once, as written.
pub(super) struct Entry<'a> {
    allowed: AllowedFields,
    line: u64,
    fields: Vec<(&'static str, &'a Node<'a>)>,
}

impl<'a> Entry<'a> {
    /// The fields below a key in `line`.
    pub(super) fn new(
        allowed: AllowedFields,
        line: u64,
        node: &'a Node<'a>,
    ) -> Result<Self, LimitsError> {
        let entries = match &node.value {
            Value::Map(entries) => entries,
            Value::Nothing => return Err(Mistake::NoValues(allowed.whole.into()).at(line)),
            value => return Err(not_a_map(allowed, value).at(node.line)),
        };
        let mut fields: Vec<(&'static str, _)> =
            Vec::with_capacity(entries.len().min(allowed.fields().count()));
        for (key, node) in entries {
            let field = allowed.field(&key.text).map_err(|mistake| {
                let own = || entries.iter().map(|(key, node)| (&*key.text, node));
                let fields = written_out(&node.value, own()).filter(|_| allowed.has_values);
                let instead =
                    |fields| Mistake::unknown_field(&key.text, format!("write `{fields}` instead"));
                fields.map_or(mistake, instead).at(key.line)
            })?;
            if let Some(place) = fields.iter().position(|(other, _)| *other == field) {
                let first = entries[place].0.line;
                return Err(Mistake::RepeatedField { field, first }.at(key.line));
            }
            fields.push((field, node));
        }
        Ok(Self {
            allowed,
            line,
            fields,
        })
    }

    pub(super) fn get(&self, field: &str) -> Option<&'a Node<'a>> {
        let found = self.fields.iter().find(|(name, _)| *name == field);
        found.map(|(_, node)| *node)
    }

    /// A field that holds a text.
    pub(super) fn text(&self, field: &'static str) -> Result<Option<&'a str>, LimitsError> {
        self.get(field).map(text).transpose()
    }

    /// The field that names a format of ids.
    pub(super) fn format(&self) -> Result<Option<IdFormat>, LimitsError> {
        self.read("id", |text| Ok(text.parse::<IdFormat>()?))
    }

    /// The field that holds the share of a lease.
    pub(super) fn lease(&self) -> Result<Option<LeaseShare>, LimitsError> {
        self.read("lease", |text| {
            text.parse().map_err(|source| Mistake::Lease {
                text: shortened(text),
                source,
            })
        })
    }

    fn read<T>(
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

impl FieldReader for Entry<'_> {
    type Error = LimitsError;

    fn parsed<T>(
        &self,
        field: &'static str,
        parse: impl FnOnce(&str) -> Result<T, NotationError>,
    ) -> Result<Option<T>, LimitsError> {
        self.read(field, |text| Ok(parse(text)?))
    }

    fn list(
        &self,
        field: &'static str,
        of: &'static ListedFields,
    ) -> Result<Option<Vec<Self>>, LimitsError> {
        let Some(node) = self.get(field) else {
            return Ok(None);
        };
        let Value::List(items) = &node.value else {
            return Err(Mistake::shape(of.list, &node.value, None).at(node.line));
        };
        let allowed = AllowedFields {
            has_values: false,
            fields: of.fields,
            whole: of.whole,
            misplaced: of.misplaced,
        };
        let items = items.iter();
        let items = items.map(|item| Self::new(allowed, item.line, item));
        items.collect::<Result<_, _>>().map(Some)
    }

    fn missing(&self, field: &'static str) -> LimitsError {
        Mistake::MissingField(field, self.allowed.whole.into()).at(self.line)
    }

    fn mistaken(&self, mistake: NotationError) -> LimitsError {
        let (field, _) = mistake.field_and_kind();
        let node = field.and_then(|field| self.get(field));
        let line = node.map_or(self.line, |node| node.line);
        Mistake::from(mistake).at(line)
    }
}

/// Returns the mistake for a value where fields should be.
fn not_a_map(allowed: AllowedFields, value: &Value<'_>) -> Mistake {
    if let Value::Text(text) = value
        && let Some(field) = allowed.without_space(text)
    {
        return Mistake::NoSpace(field.into());
    }
    match written_out(value, iter::empty()).filter(|_| allowed.has_values) {
        Some(fields) => Mistake::OneLine(value.to_string(), format!("{{{fields}}}")),
        None => Mistake::shape("a map", value, Some(allowed.whole.into())),
    }
}

/// The fields of a limit that is written in one line, with those that stand beside it.
fn written_out<'a>(
    value: &Value<'_>,
    mut beside: impl Iterator<Item = (&'a str, &'a Node<'a>)>,
) -> Option<String> {
    let Value::Text(line) = value else {
        return None;
    };
    let burst = beside.find_map(|(name, node)| match &node.value {
        Value::Text(text) if name == "burst" => Some(text),
        _ => None,
    });
    let whole = burst.map(|burst| format!("{} burst {burst}", line.trim()));
    let whole = whole.and_then(|whole| Algorithm::parse(&whole).ok());
    whole
        .or_else(|| Algorithm::parse(line.trim()).ok())?
        .values()
        .in_one_line()
}

/// The text of a node that is a scalar.
pub(super) fn text<'a>(node: &'a Node<'_>) -> Result<&'a str, LimitsError> {
    match &node.value {
        Value::Text(text) => Ok(text),
        value => Err(Mistake::shape("a single value", value, None).at(node.line)),
    }
}
