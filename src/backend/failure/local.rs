use std::iter;

use smallvec::SmallVec;

use crate::{
    algorithm::{Ask, LimitError, Share, Wait},
    backend::{Backend, BackendError, MemoryBackend},
    batch::{Batch, Member, MemberRole},
    decision::{Answer, Outcome, Source},
    limit::Limit,
    metrics,
    transaction::{Mode, OnFailure, Operation},
};

/// Decides in this process, with its share of each limit.
#[derive(Debug, Default)]
pub(super) struct LocalDecider {
    pub(super) memory: MemoryBackend,
    pub(super) share: Share,
    /// The policy for limits that have none of their own.
    pub(super) on_failure: OnFailure,
}

impl LocalDecider {
    pub(super) fn admits(&self, member: &Member<'_>) -> Result<(), LimitError> {
        self.memory.admits(&member.by(&self.share_of(member)))
    }

    /// Decides a batch by the policies of its limits. Returns the error of the store if one of them refuses.
    pub(super) fn decide_instead(
        &self,
        batch: &Batch<'_>,
        error: BackendError,
    ) -> Result<Outcome, BackendError> {
        use Operation::{Check, Peek, Spend};
        if !matches!(batch.operation, Check | Spend | Peek) {
            return Err(error);
        }
        let actions = batch.members.iter().map(|member| self.action(member));
        let action = actions.reduce(OnFailure::stricter).unwrap_or_default();
        if batch.operation != Peek {
            metrics::fell_back(action);
        }
        if action == OnFailure::Refuse {
            return Err(error);
        }
        let mut outcome = Outcome::new(batch.members.iter().map(|_| Answer::LEFT_OUT));
        let is_ours = |member: &Member<'_>| self.action(member) == OnFailure::Local;
        self.decide(batch, is_ours, &mut outcome.answers)?;
        Ok(outcome.by(Source::Local))
    }

    /// Decides some members of a batch, and leaves the answers of the others as they are.
    pub(super) fn decide(
        &self,
        batch: &Batch<'_>,
        is_ours: impl Fn(&Member<'_>) -> bool,
        answers: &mut [Answer],
    ) -> Result<(), BackendError> {
        let shares = batch.members.iter().map(|member| self.share_of(member));
        let shares: SmallVec<[Limit; 4]> = shares.collect();
        let members = iter::zip(batch.members, &shares).map(|(member, share)| {
            // The others neither vote nor change anything. The limiter asks the store to peek where a charge was made here, so
            // the verb of such a member is restored.
            let mode = if is_ours(member) {
                member.mode()
            } else {
                Mode::Observe
            };
            let verb = batch.operation.verb(mode);
            let ask = Ask { verb, ..member.ask };
            let role = MemberRole {
                mode,
                ..member.role
            };
            Member {
                by: Some(share),
                ask,
                role,
                ..*member
            }
        });
        let members: SmallVec<[Member<'_>; 4]> = members.collect();
        let ours = Batch::new(batch.operation, &members).at(batch.now);
        let mut decided = Outcome::unanswered(batch).answers;
        if let Some(Err(error)) = self.memory.try_apply(&ours, &mut decided) {
            return Err(error);
        }
        for ((member, decided), answer) in iter::zip(&members, decided).zip(answers) {
            if !is_ours(member) {
                continue;
            }
            *answer = decided;
            // The cost is more than the whole share of this process, so it can never pass here.
            if member.ask.min_cost > member.algorithm().capacity()
                && let Some(figures) = &mut answer.figures
            {
                figures.next_after = Wait::UNKNOWN;
            }
        }
        Ok(())
    }

    fn share_of(&self, member: &Member<'_>) -> Limit {
        Limit::of(member.algorithm().parameters().share(self.share))
    }

    fn action(&self, member: &Member<'_>) -> OnFailure {
        match member.on_failure().unwrap_or(self.on_failure) {
            OnFailure::Refuse if member.limit.is_shadow() => OnFailure::Allow,
            action => action,
        }
    }
}
