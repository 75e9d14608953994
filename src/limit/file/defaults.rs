//! Defaults: a map from limit names to their values.

use super::{
    super::{
        limit::Limit,
        mistake::{LimitsError, Mistake},
        name::LimitName,
    },
    entry::{AllowedFields, Entry},
    layout,
    node::{MapKey, Node, Value},
    values,
};
use crate::{algorithm::FieldReader, id::IdFormat};

const LIMIT: AllowedFields = AllowedFields {
    has_values: true,
    fields: &["number", "id", "shadow", "lease", "description", "docs"],
    whole: "write its values, such as `10/s burst 20`, or `{}` to turn it off",
    misplaced: &[("ids", "they belong to overrides")],
};

/// A name, and its definition in a file.
pub(in crate::limit) struct Definition {
    pub(in crate::limit) name: LimitName,
    /// The format of its ids, if the file has it.
    pub(in crate::limit) format: Option<IdFormat>,
    pub(in crate::limit) limit: Option<Limit>,
    pub(in crate::limit) line: u64,
}

/// The definitions in a tree, one after the other.
pub(super) fn definitions(
    root: &Node<'_>,
) -> Result<impl Iterator<Item = Result<Definition, LimitsError>>, LimitsError> {
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

fn definition(key: &MapKey<'_>, node: &Node<'_>) -> Result<Definition, LimitsError> {
    let (name, line) = (&*key.text, key.line);
    let read = || {
        if let Some(limit) = layout::line(node)? {
            return Ok(Definition {
                name: name.into(),
                format: None,
                limit: Some(limit),
                line,
            });
        }
        let entry = Entry::new(LIMIT, line, node)?;
        let shadow = entry.get("shadow").map(|_| entry.flag("shadow"));
        let (number, format) = (entry.whole("number")?, entry.format()?);
        let limit = values::limit(&entry)?;
        let said = LimitName::of(name, number, format.unwrap_or_default()).say(
            shadow.transpose()?,
            entry.lease()?,
            entry.text("description")?,
            entry.text("docs")?,
        );
        Ok(Definition {
            name: said,
            format,
            limit,
            line,
        })
    };
    read().map_err(|error: LimitsError| error.of_limit(name))
}
