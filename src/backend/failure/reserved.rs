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
        let mut checked = self.decide_with(share, &checks, true)?;
        if checked.passes(&checks) {
            return Ok(None);
        }
        let is_raised = |place: usize| raised[place].cost != batch.members[place].cost;
        mark_used_up(share, batch, &mut checked, |place, answer| {
            !answer.passed && is_raised(place)
        });
        Ok(Some(checked))
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
        let mut decided = self.decide_with(share, &rest, certain)?;
        if decided.passes(batch) {
            mark_used_up(share, batch, &mut decided, |place, _| {
                members[place].cost != batch.members[place].cost
            });
        }
        Ok(decided)
    }
}

/// Marks the members selected by `is_used_up` as denied, with the figures of an empty bucket.
fn mark_used_up(
    share: Share,
    batch: &Batch<'_>,
    decided: &mut Outcome,
    is_used_up: impl Fn(usize, &Answer) -> bool,
) {
    let now = decided.now;
    let members = batch.members.iter().zip(decided.answers_mut());
    for (place, (member, answer)) in members.enumerate() {
        if is_used_up(place, answer) {
            let share = share.algorithm(member.algorithm);
            *answer = Answer::new(share.used_up(&batch.ask(member), now), false);
        }
    }
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
