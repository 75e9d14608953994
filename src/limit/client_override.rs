//! The override of one client or of a range of addresses.

use std::sync::Arc;

use super::{limit::Limit, mistake::Location};

/// The limit that one client, or each client in a range of addresses, has instead of the default.
/// [`LimitsBuilder::override_for`](super::LimitsBuilder::override_for) adds one.
#[derive(Clone, Debug)]
pub struct Override {
    pub(super) folded: Box<str>,
    /// The id as written, if it differs from the folded one.
    written: Option<Box<str>>,
    limit: Arc<Limit>,
    pub(super) comment: Option<Box<str>>,
    pub(super) location: Location,
    /// Its position in the order of all overrides.
    pub(super) order: u64,
}

impl Override {
    pub(super) fn new(id: &str, folded: &str, limit: Arc<Limit>, location: Location) -> Self {
        Self {
            folded: folded.into(),
            written: (folded != id).then(|| id.into()),
            limit,
            comment: None,
            location,
            order: 0,
        }
    }

    /// The id or the range as it was written.
    #[must_use]
    pub fn id(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.folded)
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// The comment in the file.
    #[must_use]
    pub fn comment(&self) -> Option<&str> {
        self.comment.as_deref()
    }
}
