//! JSON, by its raw values: numbers are text.

use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::node::{Lines, MapKey, Node, SyntaxError, Value};

/// The deepest nesting of values. Limits need six levels. Raw values themselves have no bound.
const MAX_DEPTH: usize = 32;

/// Parses a text. An empty text has no content.
pub(super) fn parse(text: &str) -> Result<Node<'_>, SyntaxError> {
    if text.trim().is_empty() {
        let (line, value) = (1, Value::Nothing);
        return Ok(Node { line, value });
    }
    let raw = serde_json::from_str(text)?;
    JsonReader {
        text,
        lines: Lines::new(text),
    }
    .node(raw, MAX_DEPTH)
}

struct JsonReader<'a> {
    text: &'a str,
    lines: Lines,
}

impl<'a> JsonReader<'a> {
    /// Reads a value with at most `depth` levels.
    fn node(&self, raw: &'a RawValue, depth: usize) -> Result<Node<'a>, SyntaxError> {
        let written = raw.get();
        let line = self.line(raw);
        let Some(below) = depth.checked_sub(1) else {
            return Err(SyntaxError {
                line: Some(line),
                message: "values are nested too deep: limits have six levels at most".into(),
            });
        };
        let value = match written.as_bytes() {
            [b'{', ..] => {
                let Entries(entries) = part(written, line)?;
                let entries = entries.into_iter().map(|(key, raw)| {
                    let line = self.line(key);
                    let text = string(key.get(), line)?;
                    Ok((MapKey { line, text }, self.node(raw, below)?))
                });
                Value::Map(entries.collect::<Result<_, SyntaxError>>()?)
            }
            [b'[', ..] => {
                let items: Vec<&RawValue> = part(written, line)?;
                let nodes = items.into_iter().map(|raw| self.node(raw, below));
                Value::List(nodes.collect::<Result<_, _>>()?)
            }
            [b'"', ..] => Value::Text(string(written, line)?),
            _ => Value::Text(written.into()),
        };
        Ok(Node { line, value })
    }

    /// The line of a raw value, which is a part of the text.
    fn line(&self, raw: &RawValue) -> u64 {
        let offset = raw.get().as_ptr().addr() - self.text.as_ptr().addr();
        self.lines.at(offset)
    }
}

fn string(written: &str, line: u64) -> Result<Cow<'_, str>, SyntaxError> {
    let plain = written
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    match plain {
        Some(text) if !text.contains('\\') => Ok(text.into()),
        _ => part(written, line).map(Cow::Owned),
    }
}

/// Reads a part of the text, which begins in `line`.
fn part<'a, T: Deserialize<'a>>(written: &'a str, line: u64) -> Result<T, SyntaxError> {
    serde_json::from_str(written).map_err(|error| {
        let lines_before = line - 1;
        let error = SyntaxError::from(error);
        SyntaxError {
            line: error.line.map(|line| lines_before + line),
            ..error
        }
    })
}

/// A map's entries in order, including repeated keys.
struct Entries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

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
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_nested_as_deep_as_is_bearable() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |n| format!("{}1{}", open.repeat(n), close.repeat(n));
            assert!(parse(&nested(MAX_DEPTH - 1)).is_ok());
            for n in [MAX_DEPTH, 10_000] {
                let error = parse(&nested(n)).unwrap_err();
                assert!(error.message.contains("nested too deep"), "{error:?}");
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
            assert_eq!(parse(text).unwrap_err().line, Some(line), "{text}");
        }
    }
}
