use super::{answer::Answer, source::Source};
use crate::{algorithm::Action, clock::Timestamp};

/// The parts of a batch's result that a member's decision depends on.
#[derive(Clone, Copy)]
pub(crate) struct Circumstances {
    /// The action of the batch on the member's bucket.
    pub(crate) action: Action,
    pub(crate) now: Timestamp,
    pub(crate) passes: bool,
    pub(crate) source: Source,
}

impl Circumstances {
    /// Returns the action that the decision shows.
    #[inline(always)]
    pub(crate) fn shown(&self, answer: &Answer) -> Action {
        match answer.passed && self.passes {
            true => self.action,
            false => Action::Keep,
        }
    }
}
