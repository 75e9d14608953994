//! What is in force for one client, in the words of the files: its limit, whose it is, and where it is kept.

use serde::Serialize;
use serde_json::Value;
use tollgate::{Limit, Limits, id::IdError, limit::NamedLimit, transaction::BucketKey};

use super::bound::Bound;

/// One client of one limit.
#[derive(Debug, Serialize)]
pub(crate) struct Client {
    pub(crate) limit: String,
    /// As it was asked for.
    pub(crate) id: String,
    /// The key of its bucket, in canonical form.
    pub(crate) key: String,
    /// The values in force, or none if it is not limited.
    pub(crate) values: Option<Value>,
    /// The same in one line.
    pub(crate) summary: String,
    /// The most that it admits, unless that is everything or nothing.
    pub(crate) bound: Option<Bound>,
    #[serde(rename = "override")]
    pub(crate) own: Option<Own>,
    pub(crate) shadow: bool,
}

/// The override that a client has.
#[derive(Debug, Serialize)]
pub(crate) struct Own {
    /// As it was written.
    pub(crate) id: String,
    pub(crate) comment: Option<String>,
}

impl Client {
    /// Looks up what a client gets that a request brings under this id.
    pub(crate) fn look_up(limits: &Limits, named: &NamedLimit, id: &str) -> Result<Self, IdError> {
        let folded = named.name.format().fold(id)?;
        let limit = named.limit_of(&folded);
        Ok(Self {
            limit: named.name.to_string(),
            id: id.to_owned(),
            key: BucketKey::new(named.name.key(), folded.as_str()).to_string(),
            values: limit.and_then(|limit| serde_json::to_value(limit.as_values()).ok()),
            summary: limit.map_or_else(|| "not limited".to_owned(), Limit::to_string),
            bound: limit.and_then(Bound::of),
            own: named.override_of(&folded).map(|own| Own {
                id: own.id.to_owned(),
                comment: own.comment.map(str::to_owned),
            }),
            shadow: limits.is_shadow(named),
        })
    }
}
