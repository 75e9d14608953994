//! The layout of a file: limits in one line, and fields and names that stand at the wrong depth.

use super::{
    super::{
        limit::Limit,
        mistake::{LimitsError, Mistake},
    },
    entry::AllowedFields,
    node::{MapKey, Node, Value},
};

/// Reads a limit that is written in one line, if a value looks like one: it begins with a digit, or is a word.
pub(super) fn line(node: &Node<'_>) -> Result<Option<Limit>, LimitsError> {
    let Value::Text(text) = &node.value else {
        return Ok(None);
    };
    match text.parse() {
        Ok(limit) => Ok(Some(limit)),
        Err(error) if text.contains(char::is_whitespace) && !text.contains(':') => {
            Err(Mistake::Line(error).at(node.line))
        }
        Err(_) => Ok(None),
    }
}

/// Finds fields and names at the wrong depth.
pub(super) fn check(
    entries: &[(MapKey<'_>, Node<'_>)],
    allowed: AllowedFields,
) -> Result<(), LimitsError> {
    // A wrapper around all limits.
    if let [
        (
            key,
            Node {
                value: Value::Map(inner),
                ..
            },
        ),
    ] = entries
        && ["limits", "defaults", "overrides"].contains(&&*key.text)
        && !inner.is_empty()
        && inner
            .iter()
            .all(|(key, node)| allowed.known(&key.text).is_none() && has_values(node))
    {
        return Err(Mistake::Wrapped(format!("{}:", key.text)).at(key.line));
    }
    // A field beside the names of limits, and not below one.
    for (key, node) in entries {
        if let Some(field) = allowed.known(&key.text)
            && matches!(&node.value, Value::Text(text) if text.parse::<Limit>().is_err())
        {
            return Err(Mistake::FieldWithoutName {
                field: field.into(),
            }
            .at(key.line));
        }
    }
    Ok(())
}

fn has_values(node: &Node<'_>) -> bool {
    match &node.value {
        Value::Map(_) => true,
        Value::Text(text) => text.parse::<Limit>().is_ok(),
        _ => false,
    }
}
