//! Overrides: limits, each with the ids of its clients. They are a list or a map of names, or the older map of
//! `name:id`.

use std::iter;

use super::{
    super::{
        limit::Limit,
        mistake::{LimitsError, Mistake},
    },
    Language,
    entry::{AllowedFields, Entry, text},
    layout::{self, line as line_of},
    node::{MapKey, Node, Value},
    values,
};
use crate::algorithm::FieldReader;

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
    /// The values, unless the file says that nobody has others.
    pub(in crate::limit) limit: Option<Limit>,
    pub(in crate::limit) line: u64,
    pub(in crate::limit) ids: Vec<ListedId<'a>>,
}

/// An id in a group.
pub(in crate::limit) struct ListedId<'a> {
    pub(in crate::limit) id: &'a str,
    pub(in crate::limit) comment: Option<&'a str>,
    pub(in crate::limit) line: u64,
}

/// Groups as they are read, one after the other.
type Groups<'a> = Box<dyn Iterator<Item = Result<OverrideGroup<'a>, LimitsError>> + 'a>;

/// The groups in a tree. A file without content is a mistake: a full disk and a shell's `>` leave one, and it must not
/// unblock anyone.
pub(super) fn groups<'a>(root: &'a Node<'a>, language: Language) -> Groups<'a> {
    match &root.value {
        Value::Nothing => {
            let nothing = match language {
                Language::Toml => "`name = []` for a limit",
                Language::Yaml | Language::Json => "`[]`",
            };
            Box::new(iter::once(Err(Mistake::EmptyOverrides(nothing).into())))
        }
        Value::List(items) => Box::new(items.iter().flat_map(of_item)),
        Value::Map(entries) if entries.is_empty() => Box::new(iter::empty()),
        Value::Map(_) | Value::Text(_) => of_item(root),
    }
}

fn of_item<'a>(item: &'a Node<'a>) -> Groups<'a> {
    const EXPECTED: &str = "a list of `- name: {burst, count, period, ids}`";
    match &item.value {
        Value::Map(entries) if !entries.is_empty() => match layout::check(entries, OVERRIDE) {
            Ok(()) => Box::new(entries.iter().flat_map(|(key, node)| of_key(key, node))),
            Err(error) => Box::new(iter::once(Err(error))),
        },
        value => {
            let mistake = Mistake::shape(EXPECTED, value, None);
            Box::new(iter::once(Err(mistake.at(item.line))))
        }
    }
}

/// Returns the groups below one key. There can be several in languages where a map cannot repeat a key, and none.
fn of_key<'a>(key: &'a MapKey<'a>, node: &'a Node<'a>) -> Groups<'a> {
    match &node.value {
        Value::List(nodes) if nodes.is_empty() => Box::new(iter::once(none_of(key))),
        Value::List(nodes) => Box::new(nodes.iter().map(|node| group(key, node.line, node))),
        _ => Box::new(iter::once(group(key, key.line, node))),
    }
}

/// Returns a group without clients, whose name has yet to be a limit's.
fn none_of<'a>(key: &'a MapKey<'a>) -> Result<OverrideGroup<'a>, LimitsError> {
    let (name, _) = parts(key)?;
    Ok(OverrideGroup {
        name,
        limit: None,
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
    let read = || {
        if let Some(id) = id
            && let Some(limit) = line_of(node)?
        {
            let (comment, line) = (None, key.line);
            let ids = vec![ListedId { id, comment, line }];
            let limit = Some(limit);
            return Ok(OverrideGroup {
                name,
                limit,
                line,
                ids,
            });
        }
        let allowed = id.map_or(OVERRIDE, |_| KEYED);
        let entry = Entry::new(allowed, line, node)?;
        let limit = values::limit(&entry)?;
        if limit.is_none() {
            return Err(entry.missing("burst"));
        }
        let ids = match (id, entry.get("ids")) {
            (Some(id), _) => {
                let (comment, line) = (None, key.line);
                vec![ListedId { id, comment, line }]
            }
            (None, Some(node)) => ids(node)?,
            (None, None) => return Err(entry.missing("ids")),
        };
        Ok(OverrideGroup {
            name,
            limit,
            line,
            ids,
        })
    };
    read().map_err(|error: LimitsError| match id {
        Some(id) => error.of_limit(name).of_id(id),
        None => error.of_limit(name),
    })
}

/// Splits a key into the name and, in the older form, the id.
fn parts<'a>(key: &'a MapKey<'_>) -> Result<(&'a str, Option<&'a str>), LimitsError> {
    match key.text.split_once(':') {
        None => Ok((&key.text, None)),
        Some((name, id)) if !name.is_empty() && !id.is_empty() => Ok((name, Some(id))),
        Some(_) => Err(Mistake::override_key(&key.text).at(key.line)),
    }
}

fn ids<'a>(node: &'a Node<'a>) -> Result<Vec<ListedId<'a>>, LimitsError> {
    match &node.value {
        Value::List(items) if !items.is_empty() => items.iter().map(listed).collect(),
        Value::List(_) | Value::Nothing => Err(Mistake::NoIds.at(node.line)),
        value => Err(Mistake::shape("a list of ids", value, None).at(node.line)),
    }
}

fn listed<'a>(node: &'a Node<'a>) -> Result<ListedId<'a>, LimitsError> {
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
