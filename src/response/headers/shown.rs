use super::policy::Policy;
use crate::decision::Decision;

/// A limit with its decision, and what remembers its policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) limit: &'a str,
    pub(crate) decision: &'a Decision,
    pub(crate) policy: &'a Policy,
    pub(crate) votes: bool,
}

impl Shown<'_> {
    /// Whether this limit is one that the request is denied by.
    pub(super) fn denies(&self) -> bool {
        self.votes && !self.decision.allowed()
    }
}
