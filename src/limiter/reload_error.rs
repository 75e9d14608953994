use std::{fmt, path::PathBuf};

use thiserror::Error;

use super::limiter_error::LimiterError;
use crate::{backend::UnsupportedLimit, id::IdFormat, limit::LimitName, message::debug_is_message};

/// The error for new limits that were rejected. Returned by [`Limiter::reload`](crate::Limiter::reload).
#[derive(Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// A rule uses a name that has been removed, or has a cost above a burst.
    #[error("a rule does not fit the new limits: {0}")]
    Rule(#[source] LimiterError),
    /// A limit that a rule uses was removed from the file that defined it.
    #[error(
        "limit `{limit}`, which a rule uses, is no longer in {file}: put it back, or write `{limit}: {off}` to turn it off \
           ({hint})", file = .file.display()
    )]
    Removed {
        /// The limit.
        limit: String,
        /// The file that defined it.
        file: PathBuf,
        /// The entry that turns it off: without values, but with its number and id format.
        off: String,
        /// The suggested new name.
        hint: String,
    },
    /// A limit that a rule uses no longer has values.
    #[error(
        "limit `{limit}` no longer has values{}, and a rule uses it: add values, or write \
         `{limit}: {{}}` to turn it off",
        In(file)
    )]
    Vanished {
        /// The limit.
        limit: String,
        /// The file that had its values, if one had.
        file: Option<PathBuf>,
    },
    /// A name has another number or id format, or a number has another id format.
    #[error(
        "limit `{was}` is {}, and `{is}` would be {}, so its buckets would be lost: keep it, \
         or restart",
        Key(was),
        Key(is)
    )]
    OtherKey {
        /// The current name.
        was: LimitName,
        /// The new name.
        is: LimitName,
    },
    /// The backend cannot keep the buckets of a limit.
    #[error("limit `{limit}`{} does not fit the backend: {source}", Of(id))]
    Backend {
        /// The limit.
        limit: String,
        /// The id of the override, if it is one.
        id: Option<String>,
        /// The reason.
        source: UnsupportedLimit,
    },
}

debug_is_message!(ReloadError);

/// Returns the entry of a limit that is off. It repeats the number and the id format, because the limit's buckets depend on
/// them.
pub(super) fn off_entry(name: &LimitName) -> String {
    let number = name.number().map(|number| format!("number: {number}"));
    let format = Some(name.format()).filter(|format| *format != IdFormat::default());
    let id = format.map(|format| format!("id: {format}"));
    let fields: Vec<_> = number.into_iter().chain(id).collect();
    format!("{{{}}}", fields.join(", "))
}

/// Writes the id of an override.
struct Of<'a>(&'a Option<String>);

impl fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => write!(f, " of id `{id}`"),
            None => Ok(()),
        }
    }
}

/// Writes the file.
struct In<'a>(&'a Option<PathBuf>);

impl fmt::Display for In<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(file) => write!(f, " in {}", file.display()),
            None => Ok(()),
        }
    }
}

/// Writes the number and the id format of a name.
pub(super) struct Key<'a>(&'a LimitName);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.number() {
            Some(number) => write!(f, "number {number}")?,
            None => f.write_str("unnumbered")?,
        }
        write!(f, " with ids in the format {}", self.0.format())
    }
}
