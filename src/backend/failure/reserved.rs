//! Local decisions about buckets for which the store is deciding other requests.

use smallvec::SmallVec;

use super::local::{Local, of_members};
use crate::{
    algorithm::Share,
    backend::BackendError,
    decision::{Answer, Outcome, Source},
    transaction::{Batch, Member, Mode, Operation},
};

impl Local {
    /// Decides a batch as if `undecided` units of each bucket were spent, without a charge. Returns the denial, or `None`
    /// if the batch passes.
    pub(super) fn denies_with(
        &self,
        batch: &Batch<'_>,
        undecided: impl Fn(&Member<'_>) -> u32,
    ) -> Result<Option<Outcome>, BackendError> {
        let votes = |member: &Member<'_>| member.mode.votes();
        let Some(raised) = raised(batch, votes, undecided) else {
            return Ok(None);
        };
        let checks = Batch::new(Operation::Check, &raised).at(batch.now);
        let share = self.share.now();
        let checked = self.decide_with(share, &checks, true)?;
        let denies = !checked.passes(&checks);
        Ok(denies.then(|| denial(share, batch, &raised, &checked)))
    }

    /// Decides a batch, but skips the members without a vote that would not fit if `undecided` units of their buckets were
    /// spent.
    pub(super) fn decide_beside(
        &self,
        batch: &Batch<'_>,
        undecided: impl Fn(&Member<'_>) -> u32,
        certain: bool,
    ) -> Result<Outcome, BackendError> {
        let share = self.share.now();
        let may_be_skipped = |member: &Member<'_>| member.mode == Mode::SpendOnly;
        let Some(mut members) = raised(batch, may_be_skipped, undecided) else {
            return self.decide_with(share, batch, certain);
        };
        let checks = Batch::new(Operation::Check, &members).at(batch.now);
        let checked = self.decide_with(share, &checks, true)?;
        let pairs = members.iter_mut().zip(batch.members);
        for ((raised, member), answer) in pairs.zip(checked.answers()) {
            *raised = match answer.passed || raised.cost == member.cost {
                true => *member,
                // A cost that never fits is skipped.
                false => Member {
                    cost: u32::MAX,
                    min_cost: u32::MAX,
                    ..*member
                },
            };
        }
        let rest = Batch {
            members: &members,
            ..*batch
        };
        let decided = self.decide_with(share, &rest, certain)?;
        match decided.passes(batch) {
            true => Ok(with_skipped(share, batch, &members, decided)),
            false => Ok(decided),
        }
    }
}

/// Returns an outcome in which the buckets of skipped members are used up.
fn with_skipped(share: Share, batch: &Batch<'_>, rest: &[Member<'_>], decided: Outcome) -> Outcome {
    let now = decided.now;
    let members = batch.members.iter().zip(rest).zip(decided.answers());
    let answers = members.map(|((member, rest), answer)| match member.cost == rest.cost {
        true => *answer,
        false => {
            let share = share.algorithm(member.algorithm);
            Answer::new(share.used_up(&batch.ask(member), now), false)
        }
    });
    let answers = answers.collect();
    decided.with_answers(answers)
}

/// Returns the denial by a check with higher costs. Its figures are those of buckets that are used up.
fn denial(share: Share, batch: &Batch<'_>, raised: &[Member<'_>], checked: &Outcome) -> Outcome {
    let (now, shares) = (checked.now, of_members(share, batch));
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

/// Returns the members of a batch, with the `undecided` units added to the costs of those for which `applies` is true.
/// Returns `None` if there are no such units.
fn raised<'a>(
    batch: &Batch<'a>,
    applies: impl Fn(&Member<'_>) -> bool,
    undecided: impl Fn(&Member<'_>) -> u32,
) -> Option<SmallVec<[Member<'a>; 4]>> {
    let members = batch.members.iter();
    let raised = members.map(|member| {
        let units = match applies(member) {
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
    pairs
        .any(|(member, raised)| member.cost != raised.cost)
        .then_some(raised)
}
