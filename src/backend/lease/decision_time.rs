//! The time of a decision.

use crate::clock::Timestamp;

/// The time of a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecisionTime {
    now: Timestamp,
    /// Whether it is from the client's clock. If not, the store uses its own clock.
    is_given: bool,
}

impl DecisionTime {
    pub(super) fn new(given: Option<Timestamp>, own: impl FnOnce() -> Timestamp) -> Self {
        Self {
            now: given.unwrap_or_else(own),
            is_given: given.is_some(),
        }
    }

    pub(super) const fn now(self) -> Timestamp {
        self.now
    }

    /// Returns the time for the store, if it is not the store's own.
    pub(super) fn given(self) -> Option<Timestamp> {
        self.is_given.then_some(self.now)
    }
}
