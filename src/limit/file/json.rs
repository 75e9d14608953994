//! Reads JSON by its raw values, so that numbers stay text.

use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{LineEnds, MAX_DEPTH, MapKey, Node, ParseResult, Value, too_deep};

/// Parses a text. An empty text has no content.
pub(in crate::limit) fn parse(text: &str) -> ParseResult<Node<'_>> {
    if text.trim().is_empty() {
        return Ok(Node::new(1, Value::Nothing));
    }
    let lines = LineEnds::new(text);
    let line_of = |raw: &str| lines.at(raw.as_ptr().addr() - text.as_ptr().addr());
    node(part::<&RawValue>(text, 1)?.get(), &line_of, MAX_DEPTH)
}

/// Reads a value with at most `depth` levels.
fn node<'a>(raw: &'a str, line_of: &dyn Fn(&str) -> u64, depth: usize) -> ParseResult<Node<'a>> {
    let line = line_of(raw);
    let below = depth.checked_sub(1).ok_or_else(|| too_deep(line))?;
    let value = match raw.as_bytes()[0] {
        b'{' => {
            let Entries(entries) = part(raw, line)?;
            let entries = entries.into_iter().map(|(key, raw)| {
                let line = line_of(key.get());
                let text = string(key.get(), line)?;
                Ok((MapKey { line, text }, node(raw.get(), line_of, below)?))
            });
            Value::Map(entries.collect::<ParseResult<_>>()?)
        }
        b'[' => {
            let items: Vec<&RawValue> = part(raw, line)?;
            let nodes = items.into_iter().map(|raw| node(raw.get(), line_of, below));
            Value::List(nodes.collect::<Result<_, _>>()?)
        }
        b'"' => Value::Text(string(raw, line)?),
        _ => Value::Text(raw.into()),
    };
    Ok(Node::new(line, value))
}

fn string(raw: &str, line: u64) -> ParseResult<Cow<'_, str>> {
    if raw.contains('\\') {
        part(raw, line).map(Cow::Owned)
    } else {
        Ok(raw[1..raw.len() - 1].into())
    }
}

/// Reads a part of the text. The part begins in `line`.
fn part<'a, T: Deserialize<'a>>(raw: &'a str, line: u64) -> ParseResult<T> {
    serde_json::from_str(raw).map_err(|error| {
        let position = format!(" at line {} column {}", error.line(), error.column());
        let message = error.to_string().replace(&position, "");
        (line - 1 + error.line() as u64, message)
    })
}

/// A map's entries in order, including repeated keys.
struct Entries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_nested_as_deep_as_is_bearable() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |n| format!("{}1{}", open.repeat(n), close.repeat(n));
            assert!(parse(&nested(MAX_DEPTH - 1)).is_ok());
            for n in [MAX_DEPTH, 10_000] {
                let (_, message) = parse(&nested(n)).unwrap_err();
                assert!(message.contains("nested too deep"), "{message}");
            }
        }
    }

    #[test]
    fn mistakes_in_parts_are_in_their_lines() {
        for (text, line) in [
            ("{\"a\":\n{\"burst\":\n\"\\ud800\"}}", 3),
            ("{\n\"a\": {\n\"\\ud800\": 1}}", 3),
            ("[\n\n{\"\\ud800\": 1}]", 3),
        ] {
            assert_eq!(parse(text).unwrap_err().0, line, "{text}");
        }
    }
}
