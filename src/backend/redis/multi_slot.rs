//! A batch whose buckets are in several slots of a cluster. A script can only use the keys of one slot, so no script
//! sees all of them.
//!
//! The batch is decided in phases:
//!
//! 1. All slots are checked. If a voting member is denied, nothing is charged.
//! 2. The voting members are spent, all slots at once. If one is denied now, because another request came in between,
//!    the others are refunded.
//! 3. The members that do not vote are spent last, once the batch has passed.
//!
//! If a slot fails with an error in phase 2 or 3, all confirmed charges are refunded as well. The error says that nothing
//! was charged only if that is certain: each failed slot has charged nothing, and each other one was refunded.
//!
//! A batch within one slot takes the same phases while that slot is being moved to another server, because a script cannot
//! run on keys of which some have moved.
//!
//! Charges to tiers cannot be refunded. Slots with such charges are therefore spent last, one after the other. If one of
//! them is denied, the refundable charges are refunded, and the others that were made before it stay.
//!
//! A batch never admits too much. Until the refunds arrive, one round trip later, other requests of the same clients
//! find the batch charged and may be denied. A charge whose outcome is unknown is not refunded.

use std::{collections::BTreeMap, slice, sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{
    answer::{ScriptAnswer, judge},
    call::ScriptCall,
    cluster::Cluster,
    deadline::Deadline,
    error::{Failure, RedisError},
    keys::KeyForm,
    slot_refund::SlotRefund,
};
use crate::{
    algorithm::Found,
    clock::Timestamp,
    decision::{Answer, Outcome},
    transaction::{Batch, Member, Mode, Operation, OwnedBatch},
};

/// The members of a batch that are in one slot, by their places in the batch.
#[derive(Clone, Debug)]
struct SlotMembers {
    slot: u16,
    places: Vec<usize>,
}

impl SlotMembers {
    fn call(&self, operation: Operation, batch: &Batch<'_>, form: &KeyForm) -> (u16, ScriptCall) {
        let members = self.places.iter().map(|place| &batch.members[*place]);
        (
            self.slot,
            ScriptCall::new(operation, batch.now, members, form),
        )
    }

    /// Returns the members that are in the slot, and an owned copy of their batch.
    fn owned(&self, batch: &Batch<'_>) -> (u16, OwnedBatch) {
        let members = self.places.iter().map(|place| batch.members[*place]);
        let members: Vec<_> = members.collect();
        let charged = Batch::new(batch.operation, &members).at(batch.now);
        (self.slot, OwnedBatch::from(&charged))
    }
}

/// Decides a batch on a cluster, by one script if that is possible.
pub(super) async fn apply(
    cluster: &Arc<Cluster>,
    batch: &Batch<'_>,
    timeout: Duration,
) -> Result<Outcome, Failure> {
    let mut split = MultiSlotBatch {
        cluster,
        batch,
        apart: false,
        deadline: Deadline::after(timeout),
        timeout,
    };
    let groups = split.groups(|_| true);
    let decided = split.decide(&groups).await;
    // `TRYAGAIN` says that nothing was done in that slot. Checks and spends may be repeated, because a failed spend has
    // been refunded. A refund or a renewal over several slots may have succeeded in the others, and must not be repeated
    // there.
    let is_repeatable = !matches!(batch.operation, Operation::Refund | Operation::Renew);
    let repeatable = groups.len() == 1 || is_repeatable;
    if let (Err(Failure::TryAgain), true) = (&decided, repeatable) {
        split.apart = true;
        return split.decide(&split.groups(|_| true)).await;
    }
    decided
}

/// A batch over several slots, and the means to send it.
struct MultiSlotBatch<'a> {
    cluster: &'a Arc<Cluster>,
    batch: &'a Batch<'a>,
    /// Whether each member has its own script call, because a slot is being moved.
    apart: bool,
    deadline: Deadline,
    /// The longest that refunds may take.
    timeout: Duration,
}

impl MultiSlotBatch<'_> {
    /// Returns the members for which `applies` is true, grouped by slot.
    fn groups(&self, applies: impl Fn(&Member<'_>) -> bool) -> Vec<SlotMembers> {
        let mut groups = BTreeMap::<_, Vec<usize>>::new();
        for (place, member) in self.batch.members.iter().enumerate() {
            if applies(member) {
                let slot = self.cluster.slot_of(member);
                // While a slot is being moved, a script may only use keys that are on one side of the move. The backend
                // cannot tell which keys those are, but a call with one key always works.
                let part = if self.apart { place } else { 0 };
                groups.entry((slot, part)).or_default().push(place);
            }
        }
        let groups = groups.into_iter();
        groups
            .map(|((slot, _), places)| SlotMembers { slot, places })
            .collect()
    }

    /// Returns whether all charges of a group can be refunded.
    fn can_refund(&self, group: &SlotMembers) -> bool {
        let mut places = group.places.iter();
        places.all(|place| self.batch.members[*place].algorithm.can_refund())
    }

    fn calls(&self, groups: &[SlotMembers], operation: Operation) -> Vec<(u16, ScriptCall)> {
        let groups = groups.iter();
        groups
            .map(|group| group.call(operation, self.batch, &self.cluster.form))
            .collect()
    }

    async fn run(
        &self,
        groups: &[SlotMembers],
        operation: Operation,
    ) -> Vec<Result<ScriptAnswer, Failure>> {
        run(self.cluster, &self.calls(groups, operation), self.deadline).await
    }

    async fn decide(&self, groups: &[SlotMembers]) -> Result<Outcome, Failure> {
        match (groups, self.batch.operation) {
            ([], _) => Ok(Outcome::new(Timestamp::default(), [])),
            ([group], operation) => {
                let (slot, call) = group.call(operation, self.batch, &self.cluster.form);
                let answer = self.cluster.run(slot, &call, self.deadline).await;
                let answer = answer.map_err(|failure| failure.within(&group.places))?;
                answer.judge(self.batch)
            }
            (groups, Operation::Spend) => self.spend(groups).await,
            (groups, Operation::Renew) => self.renew(groups).await,
            (groups, operation) => {
                let answers = place(groups, self.run(groups, operation).await);
                let answers = match operation {
                    Operation::Check => without_charge(answers)?,
                    _ => all_or_nothing(answers, false)?,
                };
                let mut states = States::of(self.batch);
                states.take(groups, answers);
                states.judge(self.batch)
            }
        }
    }

    /// Renews in each slot what can be renewed there. Members of slots that fail are not known, unless all slots fail.
    async fn renew(&self, groups: &[SlotMembers]) -> Result<Outcome, Failure> {
        let answers = place(groups, self.run(groups, Operation::Renew).await);
        if answers.iter().all(Result::is_err) {
            all_or_nothing(answers, false)?;
            return Err(RedisError::Timeout.into());
        }
        let (mut states, mut failed) = (States::of(self.batch), Vec::<usize>::new());
        for (group, answer) in groups.iter().zip(answers) {
            match answer {
                Ok(answer) => states.take(slice::from_ref(group), vec![answer]),
                Err(_) => failed.extend(&group.places),
            }
        }
        let mut outcome = states.judge(self.batch)?;
        for place in failed {
            outcome.answers_mut()[place] = Answer::UNKNOWN;
        }
        Ok(outcome)
    }

    async fn spend(&self, all: &[SlotMembers]) -> Result<Outcome, Failure> {
        let mut states = States::of(self.batch);
        let seen = place(all, self.run(all, Operation::Check).await);
        states.take(all, without_charge(seen)?);
        let expected = states.judge(self.batch)?;
        if !expected.passes(self.batch) {
            return Ok(expected);
        }
        // The first phase has already asked members that only check. Asking again would cost a round trip and charge
        // nothing.
        let mut votes = self.groups(|member| member.mode == Mode::CheckAndSpend && member.cost > 0);
        // Slots whose charges can be refunded come first. They can be spent together, and refunded if a later slot denies.
        votes.sort_by_key(|group| !self.can_refund(group));
        let first = votes.partition_point(|group| self.can_refund(group));
        let others = self.groups(|member| !member.mode.votes());
        let phase = SpendPhase {
            cluster: Arc::clone(self.cluster),
            votes: self.calls(&votes[..first], Operation::Spend),
            final_votes: self.calls(&votes[first..], Operation::Spend),
            charged: votes
                .iter()
                .chain(&others)
                .map(|group| group.owned(self.batch))
                .collect(),
            others: self.calls(&others, Operation::Spend),
            deadline: self.deadline,
            timeout: self.timeout,
        };
        // A separate task, because it must refund its charges even if the caller leaves.
        let taken = self.deadline.limit(tokio::spawn(phase.run())).await?;
        let spent = taken.map_err(|_| RedisError::Timeout)?;
        let mut groups = votes;
        groups.extend(others);
        let answers = place(&groups, spent.answers);
        let answers = all_or_nothing(answers, spent.is_undone).map_err(Failure::final_one)?;
        states.take(&groups, answers);
        states.judge(self.batch)
    }
}

type SlotAnswers = Vec<Result<ScriptAnswer, Failure>>;

/// The answers of phases 2 and 3, those of the votes first. Slots that were not asked have none.
struct SpentSlots {
    answers: SlotAnswers,
    /// Whether each confirmed charge was refunded.
    is_undone: bool,
}

/// Gives the keys in failures their places in the batch.
fn place(groups: &[SlotMembers], answers: SlotAnswers) -> SlotAnswers {
    let pairs = groups.iter().zip(answers);
    let placed =
        pairs.map(|(group, answer)| answer.map_err(|failure| failure.within(&group.places)));
    placed.collect()
}

/// Returns the answers of checks, or a failure. Checks charge nothing, even if their outcome is unknown.
fn without_charge(answers: SlotAnswers) -> Result<Vec<ScriptAnswer>, Failure> {
    let answers: Result<_, _> = answers.into_iter().collect();
    answers.map_err(|failure| match failure {
        Failure::Redis(error) => Failure::Unsent(error),
        failure => failure,
    })
}

/// Returns the answers of all slots, or a failure. The failure is certain only if nothing was changed: no slot has an
/// unknown outcome, and the changes of the others `are_undone`.
fn all_or_nothing(answers: SlotAnswers, are_undone: bool) -> Result<Vec<ScriptAnswer>, Failure> {
    let has_changed = !are_undone && answers.iter().any(Result::is_ok);
    let (mut passed, mut worst) = (Vec::with_capacity(answers.len()), None::<Failure>);
    for answer in answers {
        match answer {
            Ok(answer) => passed.push(answer),
            Err(failure) => match &worst {
                Some(worse) if failure.is_certain() || !worse.is_certain() => {}
                _ => worst = Some(failure),
            },
        }
    }
    match worst {
        None => Ok(passed),
        // A reset can be repeated.
        Some(failure) if !has_changed || matches!(failure, Failure::TryAgain) => Err(failure),
        Some(failure) => Err(Failure::Partly(failure.into())),
    }
}

/// Phases 2 and 3 of a spend. From here on, each charge is either kept or refunded.
struct SpendPhase {
    cluster: Arc<Cluster>,
    votes: Vec<(u16, ScriptCall)>,
    /// Votes whose charges cannot be refunded completely.
    final_votes: Vec<(u16, ScriptCall)>,
    /// The batch of each vote, the refundable ones first.
    charged: Vec<(u16, OwnedBatch)>,
    others: Vec<(u16, ScriptCall)>,
    deadline: Deadline,
    /// The longest that refunds may take.
    timeout: Duration,
}

impl SpendPhase {
    /// Charges the voting members and, if all of them pass, the others.
    async fn run(self) -> SpentSlots {
        let took =
            |answer: &Result<ScriptAnswer, Failure>| matches!(answer, Ok(answer) if answer.passes);
        let mut voted = run(&self.cluster, &self.votes, self.deadline).await;
        // These charges cannot be refunded. So each of these slots is spent only after all earlier slots have passed.
        for (slot, call) in &self.final_votes {
            if !voted.iter().all(took) {
                break;
            }
            voted.push(self.cluster.run(*slot, call, self.deadline).await);
        }
        let mut answers = voted;
        if answers.iter().all(took) {
            answers.extend(run(&self.cluster, &self.others, self.deadline).await);
            if answers.iter().all(Result::is_ok) {
                let is_undone = false;
                return SpentSlots { answers, is_undone };
            }
        }
        let is_undone = self.give_back(&answers).await;
        SpentSlots { answers, is_undone }
    }

    /// Refunds the confirmed charges. Returns whether nothing of them is left.
    ///
    /// If an answer was lost, the charge may not have been made, and its refund would give away units that others have
    /// paid for. The refunds have their own timeout, because the request's may be over by now. Without the refunds, the
    /// client would be denied for nothing.
    async fn give_back(&self, answers: &SlotAnswers) -> bool {
        let pairs = self.charged.iter().zip(answers);
        let charged = pairs.filter_map(|((slot, batch), answer)| {
            let answer = answer.as_ref().ok().filter(|answer| answer.passes)?;
            Some((*slot, SlotRefund::of(batch, answer)))
        });
        let charged: Vec<_> = charged.collect();
        let refunds = charged.iter().filter_map(|(slot, refund)| {
            let call = refund.call(&self.cluster.form)?;
            Some((refund, (*slot, call)))
        });
        let (refunds, calls): (Vec<_>, Vec<_>) = refunds.unzip();
        let answers = run(&self.cluster, &calls, Deadline::after(self.timeout)).await;
        let mut is_undone = charged.iter().all(|(_, refund)| refund.is_complete);
        for (refund, answer) in refunds.into_iter().zip(answers) {
            let given_back = answer.and_then(|answer| refund.has_given_back(&answer));
            is_undone &= given_back.unwrap_or_else(|failure| {
                let error = RedisError::from(failure);
                tracing::debug!(%error, "a charge could not be refunded");
                false
            });
        }
        is_undone
    }
}

async fn run(cluster: &Cluster, calls: &[(u16, ScriptCall)], deadline: Deadline) -> SlotAnswers {
    let calls = calls.iter();
    join_all(calls.map(|(slot, call)| cluster.run(*slot, call, deadline))).await
}

/// The stored state of each member, converted to the clock of the first server that answered. Each server has its own
/// clock, and only the distance to now counts.
struct States {
    now: Option<Timestamp>,
    stored: Vec<Option<Found>>,
    /// The instant at which each was read, by the clock of its own server.
    clocks: Vec<Timestamp>,
}

impl States {
    fn of(batch: &Batch<'_>) -> Self {
        Self {
            now: batch.now,
            stored: vec![None; batch.members.len()],
            clocks: vec![batch.now.unwrap_or_default(); batch.members.len()],
        }
    }

    fn take(&mut self, groups: &[SlotMembers], answers: Vec<ScriptAnswer>) {
        for (group, answer) in groups.iter().zip(answers) {
            // Each server has its own clock. The states are converted to the first server's clock, so that all figures
            // of a batch refer to one instant.
            let now = *self.now.get_or_insert(answer.now);
            for (place, state) in group.places.iter().zip(answer.stored) {
                self.stored[*place] = Some(state.by_clock(answer.now, now));
                self.clocks[*place] = answer.now;
            }
        }
    }

    fn judge(&self, batch: &Batch<'_>) -> Result<Outcome, Failure> {
        let now = self.now.unwrap_or_default();
        let found = self.stored.iter().map(Option::as_ref);
        Ok(judge(batch, now, found)?.by_clocks(&self.clocks))
    }
}
