//! JSON, by its raw values: numbers are text.

use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::node::{Key, Lines, Node, SyntaxError, Value};

/// Parses a text. An empty one holds nothing.
pub(super) fn parse(text: &str) -> Result<Node<'_>, SyntaxError> {
    if text.trim().is_empty() {
        let (line, value) = (1, Value::Nothing);
        return Ok(Node { line, value });
    }
    let raw = serde_json::from_str(text)?;
    Reader {
        text,
        lines: Lines::new(text),
    }
    .node(raw)
}

struct Reader<'a> {
    text: &'a str,
    lines: Lines,
}

impl<'a> Reader<'a> {
    fn node(&self, raw: &'a RawValue) -> Result<Node<'a>, SyntaxError> {
        let written = raw.get();
        // Raw values are parts of the text.
        let line = self
            .lines
            .at(written.as_ptr().addr() - self.text.as_ptr().addr());
        let value = match written.as_bytes() {
            [b'{', ..] => {
                let Entries(entries) = serde_json::from_str(written)?;
                let entries = entries.into_iter().map(|(text, raw)| {
                    let node = self.node(raw)?;
                    let line = node.line;
                    Ok((Key { line, text }, node))
                });
                Value::Map(entries.collect::<Result<_, SyntaxError>>()?)
            }
            [b'[', ..] => {
                let items: Vec<&RawValue> = serde_json::from_str(written)?;
                let nodes = items.into_iter().map(|raw| self.node(raw));
                Value::List(nodes.collect::<Result<_, _>>()?)
            }
            [b'"', ..] => Value::Text(string(written)?),
            _ => Value::Text(written.into()),
        };
        Ok(Node { line, value })
    }
}

fn string(written: &str) -> Result<Cow<'_, str>, serde_json::Error> {
    let plain = written
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    match plain {
        Some(text) if !text.contains('\\') => Ok(text.into()),
        _ => serde_json::from_str(written).map(Cow::Owned),
    }
}

/// A map's entries in their order, those with one key too.
struct Entries<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, _>()? {
                    entries.push((key.into(), value));
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

impl From<serde_json::Error> for SyntaxError {
    fn from(error: serde_json::Error) -> Self {
        let message = error.to_string();
        let position = format!(" at line {} column {}", error.line(), error.column());
        Self {
            line: Some(error.line() as u64),
            message: message.replace(&position, ""),
        }
    }
}
