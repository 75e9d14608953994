//! Decisions without the store.

use smallvec::SmallVec;
use thiserror::Error;

use super::{
    local::Local,
    undecided::{UndecidedBatch, UndecidedUnits},
};
use crate::{
    backend::BackendError,
    decision::{Answer, LeaseFigures, OtherAnswer, Outcome},
    metrics,
    transaction::{Batch, Member, OnFailure, Operation},
};

/// Decides while the store does not, as each limit says.
#[derive(Debug)]
pub(super) struct Fallback {
    pub(super) local: Local,
    pub(super) undecided: UndecidedUnits,
    /// The policy of limits that have none.
    pub(super) on_failure: OnFailure,
    fallbacks: metrics::Fallbacks,
}

impl Fallback {
    pub(super) fn new(local: Local) -> Self {
        Self {
            local,
            undecided: UndecidedUnits::default(),
            on_failure: OnFailure::Local,
            fallbacks: metrics::Fallbacks::default(),
        }
    }

    /// Decides without the store. `certain` means that the store has charged nothing.
    pub(super) fn decide(
        &self,
        batch: &Batch<'_>,
        certain: bool,
        undecided: Option<UndecidedBatch<'_>>,
    ) -> Result<Outcome, BackendError> {
        if self.has(batch, OnFailure::Refuse) {
            self.fallbacks.count(OnFailure::Refuse);
            return Err(match certain {
                true => BackendError::not_done(RefusedByLimit),
                false => BackendError::unavailable(RefusedByLimit),
            });
        }
        self.fallbacks
            .count(match self.has(batch, OnFailure::Local) {
                true => OnFailure::Local,
                false => OnFailure::Allow,
            });
        if !self.has(batch, OnFailure::Allow) {
            return self.decide_here(batch, certain, undecided);
        }
        let members = &self.local_members(batch);
        let decided = self.decide_here(&Batch { members, ..*batch }, certain, undecided)?;
        Ok(self.extended(batch, decided))
    }

    /// Decides a batch whose limits all have local decisions.
    fn decide_here(
        &self,
        batch: &Batch<'_>,
        certain: bool,
        undecided: Option<UndecidedBatch<'_>>,
    ) -> Result<Outcome, BackendError> {
        if !self.undecided.has_others(undecided.as_ref()) {
            return self.local.decide(batch, certain);
        }
        let _turn = self.undecided.take_turn();
        if let Some(denied) = self.denial_here(batch, undecided.as_ref())? {
            // Before the turn ends: two requests for the last unit must not both be denied because of each other.
            drop(undecided);
            return Ok(denied);
        }
        let others = |member: &Member<'_>| self.undecided.others(member, undecided.as_ref());
        let decided = self.local.decide_beside(batch, others, certain);
        // Others count either this local charge or the undecided one.
        drop(undecided);
        decided
    }

    /// Returns the local denial of a batch if it would not pass once the other undecided charges are made.
    pub(super) fn denial(
        &self,
        batch: &Batch<'_>,
        own: Option<&UndecidedBatch<'_>>,
    ) -> Result<Option<Outcome>, BackendError> {
        if !may_be_local(batch) || self.has(batch, OnFailure::Refuse) {
            return Ok(None);
        }
        if !self.has(batch, OnFailure::Allow) {
            return self.denial_here(batch, own);
        }
        let members = &self.local_members(batch);
        let denied = self.denial_here(&Batch { members, ..*batch }, own)?;
        Ok(denied.map(|denied| self.extended(batch, denied)))
    }

    fn denial_here(
        &self,
        batch: &Batch<'_>,
        own: Option<&UndecidedBatch<'_>>,
    ) -> Result<Option<Outcome>, BackendError> {
        let others = |member: &Member<'_>| self.undecided.others(member, own);
        self.local.denies_with(batch, others)
    }

    /// Returns the members that are decided locally.
    fn local_members<'a>(&self, batch: &Batch<'a>) -> SmallVec<[Member<'a>; 4]> {
        let is_local = |member: &&Member<'_>| self.policy_of(member) == OnFailure::Local;
        batch.members.iter().filter(is_local).copied().collect()
    }

    /// Extends the outcome of the [local members](Self::local_members) to the whole batch; the others have no answer.
    fn extended(&self, batch: &Batch<'_>, decided: Outcome) -> Outcome {
        let left_out = batch.members.iter().map(|member| {
            let is_local = self.policy_of(member) == OnFailure::Local;
            (!is_local).then_some(OtherAnswer {
                algorithm: member.algorithm,
                answer: Answer::UNKNOWN,
                leased: LeaseFigures::NONE,
            })
        });
        decided.among(&left_out.collect::<SmallVec<[_; 4]>>())
    }

    fn has(&self, batch: &Batch<'_>, policy: OnFailure) -> bool {
        let mut members = batch.members.iter();
        members.any(|member| self.policy_of(member) == policy)
    }

    fn policy_of(&self, member: &Member<'_>) -> OnFailure {
        match member.on_failure_or(self.on_failure) {
            OnFailure::Refuse if member.shadow => OnFailure::Allow,
            on_failure => on_failure,
        }
    }
}

/// Returns whether this process can answer for the store. It cannot refund what the store has charged.
pub(super) fn may_be_local(batch: &Batch<'_>) -> bool {
    matches!(batch.operation, Operation::Check | Operation::Spend) || batch.members.is_empty()
}

/// The error for a limit that refuses while the store does not answer.
#[derive(Debug, Error)]
#[error("the store does not answer, and a limit refuses requests that it cannot count")]
struct RefusedByLimit;
