//! Defaults: a map from limit names to their values.

use super::{
    super::{
        limit::Limit,
        mistake::{LimitsError, Mistake},
        name::LimitName,
    },
    entry::{Entry, shape},
    node::{Key, Node, Value},
};

const FIELDS: [&str; 5] = ["burst", "count", "period", "number", "id"];

/// A name, and what a file says of it.
pub(in crate::limit) struct Definition {
    pub(in crate::limit) name: LimitName,
    pub(in crate::limit) limit: Option<Limit>,
    pub(in crate::limit) line: u64,
}

/// The definitions in a tree, one after the other.
pub(super) fn definitions<'a>(
    root: &'a Node<'a>,
) -> Result<impl Iterator<Item = Result<Definition, LimitsError>>, LimitsError> {
    match &root.value {
        Value::Map(entries) if !entries.is_empty() => {
            Ok(entries.iter().map(|(key, node)| definition(key, node)))
        }
        Value::Map(_) | Value::Nothing => Err(Mistake::NoLimits.into()),
        value => Err(shape("a map from limit names to their values", value).at(root.line)),
    }
}

fn definition(key: &Key<'_>, node: &Node<'_>) -> Result<Definition, LimitsError> {
    let read = || {
        let entry = Entry::new(key.line, node, &FIELDS)?;
        let format = entry.format()?.unwrap_or_default();
        Ok(Definition {
            name: LimitName::of(&key.text, entry.whole("number")?, format),
            limit: entry.limit()?,
            line: key.line,
        })
    };
    read().map_err(|error: LimitsError| error.of_limit(&key.text))
}
