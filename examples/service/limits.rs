//! The limits in force, in the form of their files.

use serde_json::{Map, Value, json};
use tollgate::{
    Limits,
    id::IdFormat,
    limit::{NamedLimit, Override},
};

/// The limits by name, and the overrides.
pub(crate) fn shown(limits: &Limits) -> Value {
    let defaults = limits
        .iter()
        .map(|named| (named.name().to_owned(), entry(named)));
    let overrides: Vec<_> = limits.iter().flat_map(overrides).collect();
    json!({"defaults": defaults.collect::<Map<_, _>>(), "overrides": overrides})
}

fn entry(named: &NamedLimit) -> Value {
    let format = Some(named.format()).filter(|format| *format != IdFormat::default());
    let facts = [
        ("number", named.number().map(Value::from)),
        ("id", format.map(|format| format.to_string().into())),
        ("shadow", named.is_shadow().then_some(Value::Bool(true))),
        ("lease", named.leased().map(Value::from)),
        ("description", named.description().map(Value::from)),
        ("docs", named.docs().map(Value::from)),
    ];
    let mut entry = named
        .limit()
        .map_or_else(|| json!({}), |limit| json!(limit));
    for (field, value) in facts {
        if let Some(value) = value {
            entry[field] = value;
        }
    }
    entry
}

/// Returns the overrides of a limit. Equal ones that follow each other are one item.
fn overrides(named: &NamedLimit) -> impl Iterator<Item = Value> {
    let own: Vec<_> = named.overrides().collect();
    let items = own.chunk_by(|one, next| one.limit() == next.limit());
    let items = items.map(|same| {
        let mut item = json!(same[0].limit());
        item["ids"] = same.iter().map(|own| id(own)).collect();
        json!({named.name(): item})
    });
    items.collect::<Vec<_>>().into_iter()
}

fn id(own: &Override) -> Value {
    match own.comment() {
        Some(comment) => json!({"id": own.id(), "comment": comment}),
        None => json!(own.id()),
    }
}
