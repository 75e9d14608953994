//! When a request is decided.

use crate::clock::Timestamp;

/// When a request is decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    now: Timestamp,
    /// Whether the client's clock says so. If not, the store's clock decides what the store is asked.
    is_given: bool,
}

impl Moment {
    pub(super) fn new(given: Option<Timestamp>, own: impl FnOnce() -> Timestamp) -> Self {
        Self {
            now: given.unwrap_or_else(own),
            is_given: given.is_some(),
        }
    }

    pub(super) const fn now(self) -> Timestamp {
        self.now
    }

    pub(super) const fn us(self) -> u64 {
        self.now.as_micros()
    }

    /// What the store is told.
    pub(super) fn given(self) -> Option<Timestamp> {
        self.is_given.then_some(self.now)
    }
}
