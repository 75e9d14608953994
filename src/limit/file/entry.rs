//! Reads the fields below the name of a limit, and the values among them.

use std::sync::LazyLock;

use super::{
    super::{limit::Limit, mistake::Reporter, notation::WORDS},
    MapKey, Node, Value,
};
use crate::{
    algorithm::{Algorithm, AlgorithmKey, FieldReader, LimitError, MapForm},
    id::shortened,
    message::{did_you_mean, nearest},
};

/// The fields for the values of a limit.
static VALUES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let fields = AlgorithmKey::FIELDS.iter().flat_map(|(_, form)| {
        let options = form.options.iter().map(|(option, _)| *option);
        form.fields.iter().copied().chain(options)
    });
    fields.chain(WORDS.map(|(word, _)| word)).collect()
});

/// Reads a limit that is written in one line. Returns `None` if the value is something else, such as a text without spaces or with
/// a colon, and `Some(None)` if the line has a mistake.
pub(in crate::limit) fn line(report: Reporter<'_>, node: &Node<'_>) -> Option<Option<Limit>> {
    let text = node.as_text()?;
    match text.parse::<Limit>() {
        Ok(limit) => Some(Some(limit)),
        Err(error) if text.contains(char::is_whitespace) && !text.contains(':') => {
            report.at(node.line).mistaken(error.to_string());
            Some(None)
        }
        Err(_) => None,
    }
}

/// Records that something else was expected.
pub(in crate::limit) fn unexpected(report: Reporter<'_>, expected: &str, node: &Node<'_>) {
    let message = format!("expected {expected}, found {}", node.value);
    report.at(node.line).mistaken(message);
}

/// Returns the text of a scalar, or records a mistake.
pub(in crate::limit) fn scalar<'a>(report: Reporter<'_>, node: &'a Node<'_>) -> Option<&'a str> {
    if node.as_text().is_none() {
        unexpected(report, "a single value", node);
    }
    node.as_text()
}

/// The known fields below a key, each once and as written.
pub(in crate::limit) struct Entry<'a> {
    report: Reporter<'a>,
    form: &'static MapForm,
    fields: Vec<(&'static str, &'a Node<'a>)>,
    /// Whether there is an unknown field. It may be a misspelt one, so missing fields are not reported then.
    has_unknown: bool,
}

impl<'a> Entry<'a> {
    /// Takes the fields below a key. The reporter is at the line of the key.
    pub(in crate::limit) fn new(
        report: Reporter<'a>,
        form: &'static MapForm,
        node: &'a Node<'a>,
    ) -> Option<Self> {
        let entries = match &node.value {
            Value::Map(entries) => entries,
            Value::Nothing => {
                report.mistaken(format!("it has no values: {}", form.whole));
                return None;
            }
            value => {
                report.at(node.line).mistaken(form.instead_of(value));
                return None;
            }
        };
        let mut entry = Self {
            report,
            form,
            fields: Vec::new(),
            has_unknown: false,
        };
        for (key, node) in entries {
            let report = report.at(key.line);
            match form.find(&key.text) {
                None => {
                    entry.has_unknown = true;
                    report.mistaken(form.hint(report.limit, key, node, entries));
                }
                Some(field) if entry.get(field).is_some() => {
                    let first = entries.iter().find(|(key, _)| key.text == field);
                    let first = first.map_or(0, |(key, _)| key.line);
                    let message = format!("{field} appears twice, first in line {first}");
                    report.mistaken(format!("{message}: remove one of them"));
                }
                Some(field) => entry.fields.push((field, node)),
            }
        }
        Some(entry)
    }

    pub(in crate::limit) fn get(&self, field: &str) -> Option<&'a Node<'a>> {
        let found = self.fields.iter().find(|(name, _)| *name == field);
        found.map(|(_, node)| *node)
    }

    /// Returns a field that holds a single value.
    pub(in crate::limit) fn scalar(&self, field: &str) -> Option<&'a str> {
        scalar(self.report, self.get(field)?)
    }

    /// Reads the values: the fields of an algorithm, or one of the words `unlimited` and `blocked`. Returns `None` if there are
    /// none or if they have a mistake.
    pub(in crate::limit) fn limit(&self, is_required: bool) -> Option<Limit> {
        match &self.kinds()[..] {
            // Fields of values without a mark of their kind: the other fields are missing.
            [] if is_required || VALUES.iter().any(|field| self.get(field).is_some()) => {
                self.require(&["burst"]);
                None
            }
            [] => None,
            [(_, word, key)] => {
                self.refuse_options_of_others(*key);
                key.map_or_else(|| word.parse().ok(), |key| key.read(self).map(Limit::of))
            }
            [(_, first, _), others @ ..] => {
                let words: Vec<_> = others.iter().map(|(_, words, _)| *words).collect();
                let mixed = format!("it mixes {first} with {}", words.join(" and with "));
                let remedy = "which are different kinds of limit: keep one of them";
                self.at(others[0].0).mistaken(format!("{mixed}, {remedy}"));
                None
            }
        }
    }

    /// Returns the kinds of limits of which the entry has fields: for each, a field that marks it, the kind in words, and the
    /// algorithm, if it has one.
    fn kinds(&self) -> Vec<(&'static str, &'static str, Option<AlgorithmKey>)> {
        let words = WORDS.map(|(word, _)| word).into_iter();
        let words = words.filter(|word| self.flag(word) == Some(true));
        // The last algorithm comes first in error messages.
        let mut forms = AlgorithmKey::FIELDS;
        forms.rotate_right(1);
        let by = forms.into_iter().filter_map(|(key, form)| {
            let mut fields = form.fields.iter();
            let mark = fields.find(|field| self.get(field).is_some())?;
            Some((*mark, form.words, Some(key)))
        });
        words.map(|word| (word, word, None)).chain(by).collect()
    }

    fn refuse_options_of_others(&self, key: Option<AlgorithmKey>) {
        let forms = AlgorithmKey::FIELDS.into_iter();
        for (_, form) in forms.filter(|(other, _)| Some(*other) != key) {
            for (field, reason) in form.options {
                if self.get(field).is_some() {
                    let only = format!("{field} is only for {}, because {reason}", form.words);
                    self.at(field).mistaken(format!("{only}: remove it"));
                }
            }
        }
    }

    /// Returns the reporter for mistakes in a field.
    fn at(&self, field: &str) -> Reporter<'a> {
        let node = self.get(field);
        node.map_or(self.report, |node| self.report.at(node.line))
    }
}

impl<'a> FieldReader for Entry<'a> {
    fn text(&self, field: &'static str) -> Option<&str> {
        self.scalar(field)
    }

    fn list(&self, field: &'static str, form: &'static MapForm) -> Option<Vec<Self>> {
        let node = self.get(field)?;
        let Value::List(items) = &node.value else {
            unexpected(self.report, form.around, node);
            return None;
        };
        let new = |item: &'a Node<'a>| Self::new(self.report.at(item.line), form, item);
        let entries: Vec<_> = items.iter().filter_map(new).collect();
        (entries.len() == items.len()).then_some(entries)
    }

    fn require(&self, fields: &[&'static str]) {
        let missing = fields.iter().filter(|field| self.get(field).is_none());
        let missing: Vec<_> = missing.copied().collect();
        let names = match &missing[..] {
            [] => return,
            _ if self.has_unknown => return,
            [one] => format!("{one} is"),
            [others @ .., last] => format!("{} and {last} are", others.join(", ")),
        };
        self.report
            .mistaken(format!("{names} missing: {}", self.form.whole));
    }

    fn mistaken(&self, mistake: LimitError) {
        let report = mistake.field().map(|field| self.at(field));
        report.unwrap_or(self.report).mistaken(mistake.to_string());
    }
}

impl MapForm {
    fn fields(&self) -> impl Iterator<Item = &'static str> {
        let values: &[_] = if self.has_values { &VALUES } else { &[] };
        values.iter().chain(self.fields).copied()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&'static str> {
        self.fields().find(|field| *field == name)
    }

    /// Returns whether there are known fields in a value.
    fn has_fields(&self, node: &Node<'_>) -> bool {
        let known = |key: &MapKey<'_>| self.find(&key.text).is_some();
        match &node.value {
            Value::Map(entries) => entries
                .iter()
                .any(|(key, node)| known(key) || self.has_fields(node)),
            Value::List(items) => items.iter().any(|item| self.has_fields(item)),
            Value::Nothing | Value::Text(_) => false,
        }
    }

    /// Returns what to write instead of an unknown field.
    fn hint(
        &self,
        limit: Option<&str>,
        key: &MapKey<'_>,
        node: &Node<'_>,
        entries: &[(MapKey<'_>, Node<'_>)],
    ) -> String {
        let name = &*key.text;
        let misplaced = self.misplaced.iter().find(|(field, _)| *field == name);
        let known: Vec<_> = self.fields().collect();
        let is_similar = nearest(name, &known).is_some();
        let hint = if let Some(fields) = self.written_out(&node.value, entries) {
            format!("write `{fields}` instead")
        } else if let Some((_, hint)) = misplaced {
            (*hint).to_owned()
        } else if name == "<<" {
            "write the fields out".to_owned()
        } else if let Some(field) = self.without_space(name) {
            return no_space(field);
        } else if let Some(limit) = limit.filter(|_| self.has_fields(node) && !is_similar) {
            // TOML reads a name with dots as nested tables.
            let limit = shortened(&format!("{limit}.{name}"));
            format!("if it is a part of the name of a limit, quote the whole name: `\"{limit}\"`")
        } else {
            did_you_mean(name, &known)
        };
        format!("unknown field `{}`: {hint}", shortened(name))
    }

    /// Returns what to write instead of a single value where fields are expected.
    fn instead_of(&self, value: &Value<'_>) -> String {
        if let Value::Text(text) = value
            && let Some(field) = self.without_space(text)
        {
            return no_space(field);
        }
        match self.written_out(value, &[]) {
            Some(fields) => format!("values are not written as {value}: write `{{{fields}}}`"),
            None => format!("expected a map, found {value}: {}", self.whole),
        }
    }

    /// Returns the fields of a limit that is written in one line, together with a separate `burst` field.
    fn written_out(&self, value: &Value<'_>, beside: &[(MapKey<'_>, Node<'_>)]) -> Option<String> {
        let Value::Text(line) = value else {
            return None;
        };
        let burst = beside.iter().find(|(key, _)| key.text == "burst");
        let burst = burst.and_then(|(_, node)| node.as_text());
        let whole = burst.map(|burst| format!("{} burst {burst}", line.trim()));
        let whole = whole.and_then(|whole| Algorithm::parse(&whole).ok());
        let read = whole.or_else(|| Algorithm::parse(line.trim()).ok());
        let read = read.filter(|_| self.has_values)?;
        read.parameters().values().in_one_line()
    }

    /// Returns the field in a text such as `burst:20`, which YAML does not split.
    fn without_space(&self, text: &str) -> Option<&'static str> {
        let (field, rest) = text.split_once(':')?;
        let is_joined = !rest.starts_with(char::is_whitespace);
        self.find(field).filter(|_| is_joined)
    }
}

fn no_space(field: &str) -> String {
    format!("a space is missing after the colon: write `{field}: …`")
}
