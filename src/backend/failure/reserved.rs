//! Local decisions about buckets for which the store is deciding other requests.

use smallvec::SmallVec;

use super::local::Local;
use crate::{
    backend::BackendError,
    decision::{Answer, Outcome, Source},
    transaction::{Algorithm, Batch, Member, Operation},
};

impl Local {
    /// Decides a batch as if `undecided` units of each bucket were spent, without a charge. Returns the denial, or `None`
    /// if the batch passes.
    pub(super) fn denies_with(
        &self,
        batch: &Batch<'_>,
        is_meant: impl Fn(&Member<'_>) -> bool,
        undecided: impl Fn(&Member<'_>) -> u32,
    ) -> Result<Option<Outcome>, BackendError> {
        let members = batch.members.iter();
        let raised = members.map(|member| {
            let units = match is_meant(member) && member.mode.votes() {
                true => undecided(member),
                false => 0,
            };
            Member {
                cost: member.cost.saturating_add(units),
                min_cost: member.min_cost.saturating_add(units),
                ..*member
            }
        });
        let raised: SmallVec<[Member<'_>; 4]> = raised.collect();
        let mut pairs = batch.members.iter().zip(&raised);
        if pairs.all(|(member, raised)| member.cost == raised.cost) {
            return Ok(None);
        }
        let checks = Batch::new(Operation::Check, &raised).at(batch.now);
        let checked = self.decide(&checks, is_meant, true)?;
        let denies = !checked.passes(&checks);
        Ok(denies.then(|| self.denial(batch, &raised, &checked)))
    }

    /// Returns the denial by a check with higher costs. Its figures are those of buckets that are used up.
    fn denial(&self, batch: &Batch<'_>, raised: &[Member<'_>], checked: &Outcome) -> Outcome {
        let (now, members) = (checked.now, batch.members.iter());
        let shares = members.map(|member| self.share.algorithm(member.algorithm));
        let shares: SmallVec<[Algorithm; 4]> = shares.collect();
        let members = batch.members.iter().zip(raised).zip(&shares);
        let answers = members.zip(checked.answers());
        let answers = answers.map(|(((member, raised), share), answer)| {
            match answer.passed || member.cost == raised.cost {
                true => *answer,
                false => Answer::new(share.used_up(&batch.ask(member), now), false),
            }
        });
        let denial = Outcome::new(now, answers.collect::<SmallVec<[Answer; 4]>>());
        denial.decided_by(shares).by(Source::Local)
    }
}
