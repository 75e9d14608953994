use super::policy::Policy;
use crate::decision::Decision;

/// A limit with its decision, and its cached policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) limit: &'a str,
    pub(crate) decision: &'a Decision,
    pub(crate) policy: &'a Policy,
    pub(crate) votes: bool,
}

impl Shown<'_> {
    /// Returns whether this limit denies the request.
    pub(super) fn denies(&self) -> bool {
        self.votes && !self.decision.allowed()
    }
}
