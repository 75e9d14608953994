//! Local decisions about buckets for which the store is deciding other requests.

use smallvec::SmallVec;

use super::local::Local;
use crate::{
    algorithm::Share,
    backend::BackendError,
    decision::{Answer, Outcome},
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
        let is_raised = |place: usize| raised[place].cost != batch.members[place].cost;
        Ok(denies.then(|| {
            with_used_up(share, batch, checked, |place, answer| {
                !answer.passed && is_raised(place)
            })
        }))
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
            true => Ok(with_used_up(share, batch, decided, |place, _| {
                members[place].cost != batch.members[place].cost
            })),
            false => Ok(decided),
        }
    }
}

/// Returns an outcome with the figures of used up buckets for the members for which `is_used_up` is true, by their places.
/// They do not pass.
fn with_used_up(
    share: Share,
    batch: &Batch<'_>,
    decided: Outcome,
    is_used_up: impl Fn(usize, &Answer) -> bool,
) -> Outcome {
    let now = decided.now;
    let members = batch.members.iter().zip(decided.answers()).enumerate();
    let answers = members.map(
        |(place, (member, answer))| match is_used_up(place, answer) {
            true => {
                let share = share.algorithm(member.algorithm);
                Answer::new(share.used_up(&batch.ask(member), now), false)
            }
            false => *answer,
        },
    );
    let answers: SmallVec<[Answer; 4]> = answers.collect();
    decided.with_answers(answers)
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
