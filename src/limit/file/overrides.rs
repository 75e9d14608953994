//! Overrides: limits, each with the ids of its clients. They are a list or a map of names, or the older map of
//! `name:id`.

use super::{
    super::{
        limit::Limit,
        mistake::{LimitsError, Mistake},
    },
    Language,
    entry::{AllowedFields, Entry, text},
    layout,
    node::{MapKey, Node, Value},
    values,
};
use crate::{algorithm::FieldReader, id::shortened};

const OVERRIDE: AllowedFields = AllowedFields {
    has_values: true,
    fields: &["ids"],
    whole: "write its values, such as burst, count and period, and its ids",
    misplaced: &[
        ("id", "list the ids below `ids`"),
        ("shadow", "it belongs to defaults"),
    ],
};

/// The older form, with the id in the key.
const KEYED: AllowedFields = AllowedFields {
    has_values: true,
    fields: &[],
    whole: "write its values, such as `10/s burst 20`",
    misplaced: &[
        ("ids", "the key has the id already"),
        ("id", "the key has the id already"),
    ],
};

const LISTED: AllowedFields = AllowedFields {
    has_values: false,
    fields: &["id", "comment"],
    whole: "an id stands alone, or has a comment beside it",
    misplaced: &[],
};

/// A limit, and the ids that have it instead of the default.
pub(in crate::limit) struct OverrideGroup<'a> {
    pub(in crate::limit) name: &'a str,
    pub(in crate::limit) limit: Limit,
    pub(in crate::limit) line: u64,
    /// Empty if the file lists no clients.
    pub(in crate::limit) ids: Vec<ListedId<'a>>,
}

/// An id in a group.
pub(in crate::limit) struct ListedId<'a> {
    pub(in crate::limit) id: &'a str,
    pub(in crate::limit) comment: Option<&'a str>,
    pub(in crate::limit) line: u64,
}

/// Gives each group in a tree to `add`. A file without content is a mistake: a full disk and a shell's `>` leave one, and it
/// must not unblock anyone.
pub(super) fn groups<'a>(
    root: &'a Node<'a>,
    language: Language,
    add: &mut impl FnMut(OverrideGroup<'a>) -> Result<(), LimitsError>,
) -> Result<(), LimitsError> {
    match &root.value {
        Value::Nothing => Err(Mistake::EmptyOverrides(match language {
            Language::Toml => "`name = []` for a limit",
            Language::Yaml | Language::Json => "`[]`",
        })
        .into()),
        Value::List(items) => items.iter().try_for_each(|item| of_item(item, add)),
        Value::Map(entries) if entries.is_empty() => Ok(()),
        Value::Map(_) | Value::Text(_) => of_item(root, add),
    }
}

fn of_item<'a>(
    item: &'a Node<'a>,
    add: &mut impl FnMut(OverrideGroup<'a>) -> Result<(), LimitsError>,
) -> Result<(), LimitsError> {
    const EXPECTED: &str = "a list of `- name: {burst, count, period, ids}`";
    let entries = match &item.value {
        Value::Map(entries) if !entries.is_empty() => entries,
        value => return Err(Mistake::shape(EXPECTED, value, None).at(item.line)),
    };
    layout::check(entries, OVERRIDE)?;
    for (key, node) in entries {
        match &node.value {
            Value::List(nodes) if nodes.is_empty() => add(none_of(key)?)?,
            // There can be several in languages where a map cannot repeat a key.
            Value::List(nodes) => nodes
                .iter()
                .try_for_each(|node| add(group(key, node.line, node)?))?,
            _ => add(group(key, key.line, node)?)?,
        }
    }
    Ok(())
}

/// Returns a group without clients, whose name has yet to be a limit's.
fn none_of<'a>(key: &'a MapKey<'a>) -> Result<OverrideGroup<'a>, LimitsError> {
    Ok(OverrideGroup {
        name: parts(key)?.0,
        limit: Limit::UNLIMITED,
        line: key.line,
        ids: Vec::new(),
    })
}

fn group<'a>(
    key: &'a MapKey<'a>,
    line: u64,
    node: &'a Node<'a>,
) -> Result<OverrideGroup<'a>, LimitsError> {
    let (name, id) = parts(key)?;
    let read = match id {
        Some(id) => keyed(key, id, line, node),
        None => listed(line, node),
    };
    match (read, id) {
        (Ok((limit, ids)), _) => Ok(OverrideGroup {
            name,
            limit,
            line,
            ids,
        }),
        (Err(error), Some(id)) => Err(error.of_limit(name).of_id(id)),
        (Err(error), None) => Err(error.of_limit(name)),
    }
}

/// Reads the values of the id in a key.
fn keyed<'a>(
    key: &MapKey<'_>,
    id: &'a str,
    line: u64,
    node: &Node<'_>,
) -> Result<(Limit, Vec<ListedId<'a>>), LimitsError> {
    let limit = match layout::line(node)? {
        Some(limit) => limit,
        None => required(&Entry::new(KEYED, line, node)?)?,
    };
    let (comment, line) = (None, key.line);
    Ok((limit, vec![ListedId { id, comment, line }]))
}

/// Reads values, and the ids that have them.
fn listed<'a>(line: u64, node: &'a Node<'a>) -> Result<(Limit, Vec<ListedId<'a>>), LimitsError> {
    let entry = Entry::new(OVERRIDE, line, node)?;
    let limit = required(&entry)?;
    let listed = entry.get("ids").ok_or_else(|| entry.missing("ids"))?;
    Ok((limit, ids(listed)?))
}

fn required(entry: &Entry<'_>) -> Result<Limit, LimitsError> {
    values::limit(entry)?.ok_or_else(|| entry.missing("burst"))
}

/// Splits a key into the name and, in the older form, the id.
fn parts<'a>(key: &'a MapKey<'_>) -> Result<(&'a str, Option<&'a str>), LimitsError> {
    match key.text.split_once(':') {
        None => Ok((&key.text, None)),
        Some((name, id)) if !name.is_empty() && !id.is_empty() => Ok((name, Some(id))),
        Some(_) => Err(Mistake::OverrideKey(shortened(&key.text)).at(key.line)),
    }
}

fn ids<'a>(node: &'a Node<'a>) -> Result<Vec<ListedId<'a>>, LimitsError> {
    match &node.value {
        Value::List(items) if !items.is_empty() => items.iter().map(listed_id).collect(),
        Value::List(_) | Value::Nothing => Err(Mistake::NoIds.at(node.line)),
        value => Err(Mistake::shape("a list of ids", value, None).at(node.line)),
    }
}

fn listed_id<'a>(node: &'a Node<'a>) -> Result<ListedId<'a>, LimitsError> {
    let line = node.line;
    let (id, comment) = match &node.value {
        Value::Nothing => ("", None),
        Value::Map(_) => {
            let entry = Entry::new(LISTED, line, node)?;
            let id = entry.get("id").ok_or_else(|| entry.missing("id"))?;
            (text(id)?, entry.get("comment").map(text).transpose()?)
        }
        _ => (text(node)?, None),
    };
    Ok(ListedId { id, comment, line })
}
