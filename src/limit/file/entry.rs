use super::{
    super::mistake::{LimitsError, Mistake},
    node::{Node, Value},
};
use crate::{
    algorithm::{Algorithm, AlgorithmKey, FieldReader, ListedFields, NotationError},
    id::IdFormat,
    spelling::did_you_mean,
    transaction::LeaseShare,
};

/// The fields for the values of a limit without an algorithm.
const ALL_OR_NOTHING: &[&str] = &["unlimited", "blocked"];

/// The fields that are allowed below a key.
#[derive(Clone, Copy)]
pub(super) struct AllowedFields {
    /// Whether the values of a limit are allowed.
    pub(super) has_values: bool,
    /// Other allowed fields.
    pub(super) fields: &'static [&'static str],
    /// A complete example, for errors about missing fields. [`VALUES`](Self::VALUES) stands for the fields of algorithms.
    pub(super) whole: &'static str,
    /// Fields that a user could expect here but that belong elsewhere, with the reason.
    pub(super) misplaced: &'static [(&'static str, &'static str)],
}

impl AllowedFields {
    const VALUES: &'static str = "<values>";

    /// Returns the complete example.
    pub(super) fn whole(&self) -> String {
        let values = AlgorithmKey::ALL.map(AlgorithmKey::words).join(", or ");
        self.whole.replace(Self::VALUES, &values)
    }

    fn fields(&self) -> impl Iterator<Item = &'static str> {
        let by_algorithm = AlgorithmKey::ALL.into_iter().flat_map(|key| {
            let options = key.options().iter().map(|(option, _)| option);
            key.fields().iter().chain(options)
        });
        let values = by_algorithm.chain(ALL_OR_NOTHING);
        let values = values.filter(|_| self.has_values);
        values.chain(self.fields).copied()
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
            Value::Nothing => return Err(Mistake::NoValues(allowed.whole()).at(line)),
            value => {
                let mistake = match written_out(value).filter(|_| allowed.has_values) {
                    Some(fields) => Mistake::OneLine(value.to_string(), format!("{{{fields}}}")),
                    None => Mistake::shape("a map", value, Some(allowed.whole())),
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
            text.parse().map_err(|source| Mistake::lease(text, source))
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
        Mistake::MissingField(field, self.allowed.whole()).at(self.line)
    }

    fn mistaken(&self, field: &'static str, mistake: NotationError) -> LimitsError {
        let line = self.get(field).map_or(self.line, |node| node.line);
        Mistake::from(mistake).at(line)
    }
}

/// The fields of a limit that is written in one line.
fn written_out(value: &Value<'_>) -> Option<String> {
    let Value::Text(text) = value else {
        return None;
    };
    Algorithm::parse(text.trim()).ok()?.written_out()
}

/// The text of a node that is a scalar.
pub(super) fn text<'a>(node: &'a Node<'_>) -> Result<&'a str, LimitsError> {
    match &node.value {
        Value::Text(text) => Ok(text),
        value => Err(Mistake::shape("a single value", value, None).at(node.line)),
    }
}
