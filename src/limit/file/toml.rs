//! Reads TOML by its spans, so that numbers stay text.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{LineEnds, MapKey, Node, ParseResult, Value};

/// Parses a text. A text without keys counts as empty, because a truncated file looks like that, too.
pub(super) fn parse(text: &str) -> ParseResult<Node<'_>> {
    let lines = LineEnds::new(text);
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(0, |span| lines.at(span.start));
        (line, error.message().replace('\n', ", "))
    })?;
    let value = match table.into_inner() {
        table if table.is_empty() => Value::Nothing,
        table => map(text, &lines, table),
    };
    Ok(Node::new(1, value))
}

fn map<'a>(text: &'a str, lines: &LineEnds, table: DeTable<'a>) -> Value<'a> {
    let entries = table.into_iter().map(|(key, value)| {
        let line = lines.at(key.span().start);
        let key = key.into_inner();
        (MapKey { line, text: key }, node(text, lines, value))
    });
    Value::Map(entries.collect())
}

fn node<'a>(text: &'a str, lines: &LineEnds, spanned: Spanned<DeValue<'a>>) -> Node<'a> {
    let span = spanned.span();
    let line = lines.at(span.start);
    let value = match spanned.into_inner() {
        DeValue::Table(table) => map(text, lines, table),
        DeValue::Array(items) => Value::List(
            items
                .into_iter()
                .map(|item| node(text, lines, item))
                .collect(),
        ),
        DeValue::String(string) => Value::Text(string),
        _ => Value::Text(text[span].into()),
    };
    Node::new(line, value)
}
