//! TOML, by its spans: numbers are text.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::node::{Lines, MapKey, Node, SyntaxError, Value};

/// Parses a text. A text without keys is nothing, since it is also what remains of a truncated file.
pub(super) fn parse(text: &str) -> Result<Node<'_>, SyntaxError> {
    let table = DeTable::parse(text).map_err(|error| SyntaxError {
        line: error.span().map(|span| Lines::new(text).at(span.start)),
        message: error.message().replace('\n', ", "),
    })?;
    let reader = TomlReader {
        text,
        lines: Lines::new(text),
    };
    let value = match table.into_inner() {
        table if table.is_empty() => Value::Nothing,
        table => reader.map(table),
    };
    Ok(Node { line: 1, value })
}

struct TomlReader<'a> {
    text: &'a str,
    lines: Lines,
}

impl<'a> TomlReader<'a> {
    fn map(&self, table: DeTable<'a>) -> Value<'a> {
        let entries = table.into_iter().map(|(key, value)| {
            let line = self.lines.at(key.span().start);
            let text = key.into_inner();
            (MapKey { line, text }, self.node(value))
        });
        Value::Map(entries.collect())
    }

    fn node(&self, spanned: Spanned<DeValue<'a>>) -> Node<'a> {
        let span = spanned.span();
        let line = self.lines.at(span.start);
        let value = match spanned.into_inner() {
            DeValue::Table(table) => self.map(table),
            DeValue::Array(items) => {
                Value::List(items.into_iter().map(|item| self.node(item)).collect())
            }
            DeValue::String(text) => Value::Text(text),
            _ => Value::Text(self.text[span].into()),
        };
        Node { line, value }
    }
}
