//! Reads lines in JSON: those of Caddy, Traefik, Envoy, CloudFront, of nginx with a `log_format` in JSON, and all with named fields.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{LineError, line::Line};

/// The fields in which programs that collect logs keep a line as it was written.
const WRAPPED: [&str; 4] = ["log", "message", "MESSAGE", "textPayload"];

/// A line. Fields of an object `request` in it are found by their own names.
pub(super) struct JsonLine(Map<String, Value>);

impl JsonLine {
    pub(super) fn parse(line: &[u8]) -> Result<Self, LineError> {
        let fields = serde_json::from_slice(line);
        fields.map(Self).map_err(|_| LineError::Form)
    }

    /// Returns the line that a program has written, if another program has wrapped it.
    pub(super) fn wrapped(&self) -> Option<&str> {
        let mut fields = WRAPPED.iter().filter_map(|name| self.0.get(*name));
        fields.find_map(Value::as_str)
    }

    fn value(&self, name: &str) -> Option<&Value> {
        let in_request = || self.0.get("request")?.get(name);
        find(&self.0, name).or_else(in_request)
    }
}

impl Line for JsonLine {
    fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        match self.value(name)? {
            Value::Array(values) => text(values.first()?),
            value => text(value),
        }
    }

    fn list(&self, name: &str) -> Option<Cow<'_, str>> {
        match self.value(name)? {
            Value::Array(values) => {
                let texts: Option<Vec<_>> = values.iter().map(text).collect();
                Some(texts?.join(",").into())
            }
            value => text(value),
        }
    }
}

/// Finds a field. If no field has the whole name, each dot in it leads into an object.
fn find<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| {
        let (outer, inner) = name.split_once('.')?;
        find(object.get(outer)?.as_object()?, inner)
    })
}

/// Returns a value as text; `None` for lists and objects.
fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Null => Some("".into()),
        Value::String(text) => Some(text.into()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string().into()),
        Value::Array(_) | Value::Object(_) => None,
    }
}
