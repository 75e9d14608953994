//! The limit of one client, in the terms of the files: its values, their source, and the key of the bucket.

use serde::Serialize;
use serde_json::Value;
use tollgate::{Limit, id::IdError, limit::NamedLimit};

use super::bound::Bound;

/// One client of one limit.
#[derive(Debug, Serialize)]
pub(crate) struct Client {
    pub(crate) limit: String,
    /// The id as requested.
    pub(crate) id: String,
    /// The key of its bucket, in canonical form.
    pub(crate) key: String,
    /// The values in force; `None` if the client is not limited.
    pub(crate) values: Option<Value>,
    /// The values in one line.
    pub(crate) summary: String,
    /// The most that the limit admits, unless it admits everything or nothing.
    pub(crate) bound: Option<Bound>,
    #[serde(rename = "override")]
    pub(crate) own: Option<Own>,
    pub(crate) shadow: bool,
}

/// The override that a client has.
#[derive(Debug, Serialize)]
pub(crate) struct Own {
    /// The id as written.
    pub(crate) id: String,
    pub(crate) comment: Option<String>,
}

impl Client {
    /// Looks up the limit of a client whose requests have this id.
    pub(crate) fn look_up(named: &NamedLimit, id: &str) -> Result<Self, IdError> {
        let limit = named.limit_of(id)?;
        Ok(Self {
            limit: named.name().to_owned(),
            id: id.to_owned(),
            key: named.bucket_key(id)?,
            values: limit.and_then(|limit| serde_json::to_value(limit).ok()),
            summary: limit.map_or_else(|| "not limited".to_owned(), Limit::to_string),
            bound: limit.and_then(Bound::of),
            own: named.override_of(id).map(|own| Own {
                id: own.id().to_owned(),
                comment: own.comment().map(str::to_owned),
            }),
            shadow: named.is_shadow(),
        })
    }
}
