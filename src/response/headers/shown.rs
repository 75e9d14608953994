use super::policy::Policy;
use crate::decision::Decision;

/// The decision on a limit, and what clients see of the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) decision: &'a Decision,
    pub(crate) policy: &'a Policy,
}

impl Shown<'_> {
    /// Returns whether this limit denies the request.
    pub(super) fn denies(&self) -> bool {
        self.policy.votes() && !self.decision.allowed()
    }
}
