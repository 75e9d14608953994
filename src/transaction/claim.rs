use super::{
    batch::{Batch, Member, Operation},
    fingerprint::Fingerprint,
};
use crate::algorithm::{Action, Algorithm, Ask};

/// All that a decision on a bucket depends on, apart from its state. A [`Member`] also has what stores elsewhere need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) algorithm: &'a Algorithm,
    pub(crate) ask: Ask<'a>,
    pub(crate) votes: bool,
    /// Whether it has lost its vote to shadow mode.
    pub(crate) shadow: bool,
}

impl Claim<'_> {
    /// Returns whether the batch is denied if the cost does not fit.
    #[inline(always)]
    pub(crate) const fn decides(&self) -> bool {
        self.votes && matches!(self.ask.action, Action::Spend | Action::Probe)
    }

    /// Returns whether the answer changes the bucket, if the batch passes.
    #[inline(always)]
    pub(crate) const fn writes(&self, passed: bool) -> bool {
        passed && self.ask.action.writes()
    }
}

impl Operation {
    /// Returns what a member of a batch asks of its bucket.
    #[inline(always)]
    pub(crate) fn claim<'a>(self, member: &Member<'a>) -> Claim<'a> {
        Claim {
            fingerprint: member.fingerprint,
            algorithm: member.algorithm,
            ask: self.ask(member),
            votes: member.mode.votes(),
            shadow: member.shadow,
        }
    }
}

impl<'a> Batch<'a> {
    /// Returns what a member asks of its bucket.
    #[inline(always)]
    pub(crate) fn claim(&self, member: &Member<'a>) -> Claim<'a> {
        self.operation.claim(member)
    }
}
