//! A batch whose buckets are in several slots of a cluster. A script can only use the keys of one slot, so no script
//! sees all of them.
//!
//! The batch is decided in phases:
//!
//! 1. All slots are checked. If a voting member is denied, nothing is charged.
//! 2. The voting members are spent, all slots at once. If one is denied now, because another request came in between,
//!    the others are refunded.
//! 3. The members that do not vote are spent last, once the batch has passed. They are never refunded.
//!
//! A batch within one slot takes the same phases while that slot is being moved to another server, because a script cannot
//! run on keys of which some have moved.
//!
//! Tiers cannot be refunded. Slots with tiers are therefore spent last, one after the other. If one of them is denied, the
//! members without tiers are refunded, and the tiers that were spent before it stay charged.
//!
//! A batch never admits too much. Until the refunds arrive, one round trip later, other requests of the same clients
//! find the batch charged and may be denied. A charge whose outcome is unknown is not refunded.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fred::util::redis_keyslot;
use futures_util::future::join_all;

use super::{
    answer::{ScriptAnswer, judge},
    call::ScriptCall,
    cluster::Cluster,
    deadline::Deadline,
    error::{Failure, RedisError},
    keys::KeyForm,
    stored_reply::StoredReply,
};
use crate::{
    clock::Timestamp,
    decision::Outcome,
    transaction::{Algorithm, Batch, Member, Mode, Operation, OwnedBatch},
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

/// Returns the slot of a member's bucket.
pub(super) fn slot_of(member: &Member<'_>, form: &KeyForm) -> u16 {
    redis_keyslot(form.key(member).as_bytes())
}

/// Decides a batch on a cluster, by one script if that is possible.
pub(super) async fn apply(
    cluster: &Arc<Cluster>,
    batch: &Batch<'_>,
    form: &KeyForm,
    timeout: Duration,
) -> Result<Outcome, Failure> {
    let mut split = MultiSlotBatch {
        cluster,
        batch,
        form,
        apart: false,
        deadline: Deadline::after(timeout),
        timeout,
    };
    let groups = split.groups(|_| true);
    let decided = split.decide(&groups).await;
    // `TRYAGAIN` says that nothing was done in that slot. Checks and spends may be repeated, because a failed spend has
    // been refunded. A refund over several slots may have succeeded in the others, and must not be repeated there.
    let repeatable = groups.len() == 1 || batch.operation != Operation::Refund;
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
    form: &'a KeyForm,
    /// Whether each member has its own script call, because a slot is being moved.
    apart: bool,
    deadline: Deadline,
    /// The longest that refunds may take.
    timeout: Duration,
}

impl MultiSlotBatch<'_> {
    /// Returns the members for which `is_meant` is true, grouped by slot.
    fn groups(&self, is_meant: impl Fn(&Member<'_>) -> bool) -> Vec<SlotMembers> {
        let mut groups = BTreeMap::<_, Vec<usize>>::new();
        for (place, member) in self.batch.members.iter().enumerate() {
            if is_meant(member) {
                let slot = slot_of(member, self.form);
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

    fn has_tiers(&self, group: &SlotMembers) -> bool {
        let mut places = group.places.iter();
        places.any(|place| {
            let algorithm = self.batch.members[*place].algorithm;
            matches!(algorithm, Algorithm::Tiers(_))
        })
    }

    fn calls(&self, groups: &[SlotMembers], operation: Operation) -> Vec<(u16, ScriptCall)> {
        let groups = groups.iter();
        groups
            .map(|group| group.call(operation, self.batch, self.form))
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
                let (slot, call) = group.call(operation, self.batch, self.form);
                let answer = self.cluster.run(slot, &call, self.deadline).await?;
                answer.judge(self.batch)
            }
            (groups, Operation::Spend) => self.spend(groups).await,
            (groups, operation) => {
                let mut states = States::of(self.batch);
                states.take(self.batch, groups, self.run(groups, operation).await)?;
                states.judge(self.batch)
            }
        }
    }

    async fn spend(&self, all: &[SlotMembers]) -> Result<Outcome, Failure> {
        let mut states = States::of(self.batch);
        states.take(self.batch, all, self.run(all, Operation::Check).await)?;
        let expected = states.judge(self.batch)?;
        if !expected.passes(self.batch) {
            return Ok(expected);
        }
        // The first phase has already asked members that only check. Asking again would cost a round trip and charge
        // nothing.
        let mut votes = self.groups(|member| member.mode == Mode::CheckAndSpend && member.cost > 0);
        // Slots without tiers come first. They can be spent together, and refunded if a later slot denies.
        votes.sort_by_key(|group| self.has_tiers(group));
        let first = votes.partition_point(|group| !self.has_tiers(group));
        let others = self.groups(|member| !member.mode.votes());
        let phase = SpendPhase {
            cluster: Arc::clone(self.cluster),
            votes: self.calls(&votes[..first], Operation::Spend),
            tiers: self.calls(&votes[first..], Operation::Spend),
            charged: votes.iter().map(|group| group.owned(self.batch)).collect(),
            form: self.form.clone(),
            others: self.calls(&others, Operation::Spend),
            deadline: self.deadline,
            timeout: self.timeout,
        };
        // A separate task, because it must refund its charges even if the caller leaves.
        let taken = self.deadline.limit(tokio::spawn(phase.run())).await?;
        let (voted, offered) = taken.map_err(|_| RedisError::Timeout)?;
        // An unknown outcome may be a charge. Converting it to an error keeps `apply` from repeating the batch.
        states
            .take(self.batch, &votes, voted)
            .map_err(RedisError::from)?;
        if let Some(offered) = offered {
            states
                .take(self.batch, &others, offered)
                .map_err(RedisError::from)?;
        }
        states.judge(self.batch)
    }
}

type SlotAnswers = Vec<Result<ScriptAnswer, Failure>>;

/// Phases 2 and 3 of a spend. From here on, each charge is either kept or refunded.
struct SpendPhase {
    cluster: Arc<Cluster>,
    votes: Vec<(u16, ScriptCall)>,
    /// Votes with tiers, which cannot be refunded completely.
    tiers: Vec<(u16, ScriptCall)>,
    /// The batch of each vote, those without tiers first.
    charged: Vec<(u16, OwnedBatch)>,
    form: KeyForm,
    others: Vec<(u16, ScriptCall)>,
    deadline: Deadline,
    /// The longest that refunds may take.
    timeout: Duration,
}

impl SpendPhase {
    /// Charges the voting members and, if all of them pass, the others.
    async fn run(self) -> (SlotAnswers, Option<SlotAnswers>) {
        let took =
            |answer: &Result<ScriptAnswer, Failure>| matches!(answer, Ok(answer) if answer.passes);
        let mut voted = run(&self.cluster, &self.votes, self.deadline).await;
        // A grant of tiers cannot be refunded. So each slot with tiers is spent only after all earlier slots have
        // passed.
        for (slot, call) in &self.tiers {
            if !voted.iter().all(took) {
                break;
            }
            voted.push(self.cluster.run(*slot, call, self.deadline).await);
        }
        if voted.iter().all(took) {
            let others = run(&self.cluster, &self.others, self.deadline).await;
            return (voted, Some(others));
        }
        // Only confirmed charges are refunded. If an answer was lost, the charge may not have been made, and its refund
        // would give away units that others have paid for. The refunds have their own timeout, because the request's
        // may be over by now. Without the refunds, the client would be denied for nothing.
        let charged = self.charged.iter().zip(&voted);
        let back: Vec<_> = charged
            .filter(|(_, answer)| took(answer))
            .filter_map(|((slot, batch), answer)| {
                let call = refund_of(batch, answer.as_ref().ok()?, &self.form)?;
                Some((*slot, call))
            })
            .collect();
        for answer in run(&self.cluster, &back, Deadline::after(self.timeout)).await {
            if let Err(failure) = answer {
                let error = RedisError::from(failure);
                tracing::debug!(%error, "a charge could not be refunded");
            }
        }
        (voted, None)
    }
}

/// Creates the call that refunds a batch by its receipts. Tiers have none.
fn refund_of(charged: &OwnedBatch, answer: &ScriptAnswer, form: &KeyForm) -> Option<ScriptCall> {
    charged.lend(|batch| {
        let outcome = answer.judge(batch).ok()?;
        let decisions = (0..batch.members.len()).map(|i| outcome.decision(batch, i, true));
        let receipts: Vec<_> = decisions.map(|decision| decision?.receipt()).collect();
        let refunded = batch.members.iter().zip(&receipts);
        let refunded: Vec<_> = refunded
            .filter_map(|(member, receipt)| {
                let receipt = Some(receipt.as_ref()?);
                Some(Member { receipt, ..*member })
            })
            .collect();
        let call = ScriptCall::new(Operation::Refund, batch.now, refunded.iter(), form);
        (!refunded.is_empty()).then_some(call)
    })
}

async fn run(cluster: &Cluster, calls: &[(u16, ScriptCall)], deadline: Deadline) -> SlotAnswers {
    let calls = calls.iter();
    join_all(calls.map(|(slot, call)| cluster.run(*slot, call, deadline))).await
}

/// The stored state of each member, converted to the clock of the first server that answered. Each server has its own
/// clock, and only the distance to now counts.
struct States {
    now: Option<Timestamp>,
    stored: Vec<StoredReply>,
    /// The instant at which each was read, by the clock of its own server.
    clocks: Vec<Timestamp>,
}

impl States {
    fn of(batch: &Batch<'_>) -> Self {
        Self {
            now: batch.now,
            stored: vec![StoredReply::NOTHING; batch.members.len()],
            clocks: vec![batch.now.unwrap_or_default(); batch.members.len()],
        }
    }

    fn take(
        &mut self,
        batch: &Batch<'_>,
        groups: &[SlotMembers],
        answers: SlotAnswers,
    ) -> Result<(), Failure> {
        for (group, answer) in groups.iter().zip(answers) {
            let answer = answer?;
            // Each server has its own clock. The states are converted to the first server's clock, so that all figures
            // of a batch refer to one instant.
            let now = *self.now.get_or_insert(answer.now);
            for (place, state) in group.places.iter().zip(answer.stored) {
                self.stored[*place] = state.by_clock(&batch.members[*place], answer.now, now);
                self.clocks[*place] = answer.now;
            }
        }
        Ok(())
    }

    fn judge(&self, batch: &Batch<'_>) -> Result<Outcome, Failure> {
        let now = self.now.unwrap_or_default();
        Ok(judge(batch, now, &self.stored)?.by_clocks(&self.clocks))
    }
}
