//! Defaults: a map from limit names to their values.

use super::{
    super::{
        limit::Limit,
        mistake::{LimitsError, Mistake},
    },
    entry::{AllowedFields, Entry},
    layout,
    layout::line,
    node::{MapKey, Node, Value},
    values,
};
use crate::{algorithm::FieldReader, backend::LeaseShare, id::IdFormat};

const LIMIT: AllowedFields = AllowedFields {
    has_values: true,
    fields: &["number", "id", "shadow", "lease", "description", "docs"],
    whole: "write its values, such as `10/s burst 20`, or `{}` to turn it off",
    misplaced: &[("ids", "they belong to overrides")],
};

/// A name, and its definition in a file.
pub(in crate::limit) struct Definition<'a> {
    pub(in crate::limit) name: &'a str,
    pub(in crate::limit) number: Option<u32>,
    pub(in crate::limit) format: Option<IdFormat>,
    pub(in crate::limit) limit: Option<Limit>,
    pub(in crate::limit) shadow: Option<bool>,
    pub(in crate::limit) lease: Option<LeaseShare>,
    pub(in crate::limit) description: Option<&'a str>,
    pub(in crate::limit) docs: Option<&'a str>,
    pub(in crate::limit) line: u64,
}

/// The definitions in a tree, one after the other.
pub(super) fn definitions<'a>(
    root: &'a Node<'a>,
) -> Result<impl Iterator<Item = Result<Definition<'a>, LimitsError>>, LimitsError> {
    match &root.value {
        Value::Map(entries) if !entries.is_empty() => {
            layout::check(entries, LIMIT)?;
            Ok(entries.iter().map(|(key, node)| definition(key, node)))
        }
        Value::Map(_) | Value::Nothing => Err(Mistake::NoLimits.into()),
        value => {
            let expected = "a map from limit names to their values";
            Err(Mistake::shape(expected, value, None).at(root.line))
        }
    }
}

fn definition<'a>(key: &'a MapKey<'a>, node: &'a Node<'a>) -> Result<Definition<'a>, LimitsError> {
    let read = || {
        if let Some(limit) = line(node)? {
            return Ok(Definition {
                name: &key.text,
                limit: Some(limit),
                number: None,
                format: None,
                shadow: None,
                lease: None,
                description: None,
                docs: None,
                line: key.line,
            });
        }
        let entry = Entry::new(LIMIT, key.line, node)?;
        Ok(Definition {
            name: &key.text,
            number: entry.whole("number")?,
            format: entry.format()?,
            limit: values::limit(&entry)?,
            shadow: match entry.get("shadow") {
                Some(_) => Some(entry.flag("shadow")?),
                None => None,
            },
            lease: entry.lease()?,
            description: entry.text("description")?,
            docs: entry.text("docs")?,
            line: key.line,
        })
    };
    read().map_err(|error: LimitsError| error.of_limit(&key.text))
}
