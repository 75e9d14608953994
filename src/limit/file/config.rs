//! Limits in an application's own configuration, by serde.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

use super::{
    super::{
        limit::Limit,
        mistake::{LimitsError, Mistake},
    },
    entry::{AllowedFields, Entry},
    node::{MapKey, Node, Value},
    values,
};

const VALUES: AllowedFields = AllowedFields {
    has_values: true,
    fields: &[],
    whole: "write its values, such as burst, count and period",
    misplaced: &[
        ("ids", "they belong to overrides in a file of limits"),
        ("number", "it belongs to a name in a file of limits"),
    ],
};

/// The line of a value whose line is unknown.
const LINE: u64 = 0;

/// Reads the value of a name in a file of limits, or the one line that [`FromStr`](std::str::FromStr) reads.
///
/// ```
/// use serde::Deserialize;
/// use tollgate::Limit;
///
/// #[derive(Deserialize)]
/// struct Config {
///     api: Limit,
///     uploads: Limit,
/// }
///
/// let config: Config = serde_json::from_str(
///     r#"{"api": "10/s burst 20", "uploads": {"burst": 5, "count": 5, "period": "15m"}}"#,
/// )?;
/// assert_eq!(config.api, Limit::per_second(10).burst(20));
/// assert_eq!(config.uploads.to_string(), "5 per 15m0s, 5 at once");
/// # Ok::<_, serde_json::Error>(())
/// ```
///
/// The format has to describe itself, as JSON, YAML and TOML do.
impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written(node) = Written::deserialize(deserializer)?;
        if let Value::Text(line) = &node.value {
            return line.parse().map_err(D::Error::custom);
        }
        limit(&node).map_err(|error| D::Error::custom(error.problem()))
    }
}

fn limit(node: &Node<'_>) -> Result<Limit, LimitsError> {
    let entry = Entry::new(VALUES, LINE, node)?;
    let limit = values::limit(&entry)?;
    limit.ok_or_else(|| Mistake::NoValues(VALUES.whole.into()).at(LINE))
}

/// A value as written, with numbers and flags as text.
struct Written(Node<'static>);

impl Written {
    fn of(value: Value<'static>) -> Self {
        Self(Node { line: LINE, value })
    }

    fn text(text: &impl ToString) -> Self {
        Self::of(Value::Text(text.to_string().into()))
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WrittenVisitor)
    }
}

struct WrittenVisitor;

impl<'de> Visitor<'de> for WrittenVisitor {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a limit, as `10/s burst 20` or as a map of burst, count and period")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Written, E> {
        Ok(Written::text(&flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Written, E> {
        Ok(Written::text(&number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Written, E> {
        Ok(Written::text(&number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Written, E> {
        Ok(Written::text(&number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Written, E> {
        Ok(Written::text(&text))
    }

    fn visit_unit<E: Error>(self) -> Result<Written, E> {
        Ok(Written::of(Value::Nothing))
    }

    fn visit_none<E: Error>(self) -> Result<Written, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Written, D::Error> {
        Written::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Written, A::Error> {
        let mut items = Vec::new();
        while let Some(Written(node)) = seq.next_element()? {
            items.push(node);
        }
        Ok(Written::of(Value::List(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Written, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, Written(node))) = map.next_entry::<String, _>()? {
            let (line, text) = (LINE, key.into());
            entries.push((MapKey { line, text }, node));
        }
        Ok(Written::of(Value::Map(entries)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tiers::Tier;

    fn read(json: &str) -> Result<Limit, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_values_and_lines() {
        let secs = Duration::from_secs;
        let tiers = [
            Tier::new(5, secs(1)),
            Tier::new(1, secs(15)).active(secs(15)),
        ];
        let tiers = Limit::tiers(tiers).expect("a test's tiers");
        for (json, limit) in [
            (r#""10/s burst 20""#, Limit::per_second(10).burst(20)),
            (r#""blocked""#, Limit::BLOCKED),
            (
                r#"{"burst": 20, "count": "10", "period": "1s"}"#,
                Limit::per_second(10).burst(20),
            ),
            (
                r#"{"tiers": [{"limit": 5, "window": "1s"}, {"limit": 1, "window": "15s", "active": "15s"}]}"#,
                tiers,
            ),
        ] {
            assert_eq!(read(json), Ok(limit), "{json}");
        }
    }

    #[test]
    fn refuses_with_what_to_write() {
        for (json, reason) in [
            ("null", "it has no values: write its values"),
            ("7", "write it as `10/s burst 20`"),
            (r#"{"ids": [1]}"#, "they belong to overrides"),
            (
                r#"{"unlimited": true, "blocked": true}"#,
                "keep one of them",
            ),
        ] {
            let error = read(json).expect_err(json);
            assert!(error.contains(reason), "{json}: {error}");
            assert!(!error.starts_with(':'), "{error}");
        }
    }
}
