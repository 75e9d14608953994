//! A batch whose buckets are in several slots of a cluster. A script can only use the keys of one slot, so no script sees all
//! of them. The batch is decided member by member, in phases:
//!
//! 1. All members are checked. If a voting member is denied, nothing is charged, and the figures of the others are looked up. So a
//!    denied client never takes units from other buckets, even for a moment.
//! 2. The members are charged, all at the same time. Those whose charges cannot be refunded (tiers and blocks) follow one by one.
//!
//! If a member fails in phase 2, or is denied because another request has come in between, a task that outlives the request refunds
//! all confirmed charges. The error says that nothing was charged only if that is certain. A batch never admits too much. Until the
//! refunds arrive, other requests of the same clients can be denied.
//!
//! A batch within one slot takes the same phases while the slot is being moved to another server, because a script cannot run if
//! only some of its keys have moved.

use std::{
    future,
    iter::{self, zip},
    pin::pin,
    slice,
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{self, Instant},
};

use super::error::{Failure, RedisError};
use crate::{
    algorithm::{Algorithm, Ask, Charge, Verb},
    batch::OwnedBatch,
    batch::{Batch, Member},
    decision::{Answer, Outcome},
    transaction::Operation,
};

type MemberAnswer = Result<Answer, Failure>;

/// Servers that decide batches, each within one slot.
pub(super) trait SlotServers: Send + Sync + 'static {
    /// Where tasks run that outlive a request.
    fn runtime(&self) -> &Handle;

    /// Held while the calls of a batch are sent.
    fn turn(&self) -> &Mutex<()>;

    /// Returns the slot of a member's bucket; always the same one if there are no slots.
    fn slot_of_member(&self, member: &Member<'_>) -> u64;

    /// Decides a batch whose keys share a slot.
    fn run(
        self: &Arc<Self>,
        batch: &Batch<'_>,
        deadline: Instant,
    ) -> impl Future<Output = Result<Vec<Answer>, Failure>> + Send;
}

/// Returns whether one script can decide a batch.
fn share_a_slot(servers: &impl SlotServers, batch: &Batch<'_>) -> bool {
    let members = batch.members.iter();
    let mut slots = members.map(|member| servers.slot_of_member(member));
    slots
        .next()
        .is_none_or(|first| slots.all(|slot| slot == first))
}

/// Decides a batch until the deadline, by one script if that is possible. Refunds may take as long as `timeout`.
pub(super) async fn apply<S: SlotServers>(
    servers: &Arc<S>,
    batch: &Batch<'_>,
    deadline: Instant,
    timeout: Duration,
) -> Result<Outcome, Failure> {
    let is_one_script = batch.members.len() <= 1
        || batch.operation != Operation::Renew && share_a_slot(&**servers, batch);
    if is_one_script {
        match servers.run(batch, deadline).await {
            Err(Failure::TryAgain) => {}
            found => return found.map(Outcome::new),
        }
    }
    let split = SplitBatch {
        servers,
        batch,
        deadline,
        timeout,
    };
    // Boxed, to keep the future of a single script small.
    Box::pin(split.decide()).await
}

/// A batch that is decided member by member.
struct SplitBatch<'a, S> {
    servers: &'a Arc<S>,
    batch: &'a Batch<'a>,
    deadline: Instant,
    /// The longest that refunds may take.
    timeout: Duration,
}

impl<S: SlotServers> SplitBatch<'_, S> {
    async fn decide(&self) -> Result<Outcome, Failure> {
        let operation = self.batch.operation;
        if matches!(operation, Operation::Check | Operation::Spend) {
            return self.check_and_spend().await;
        }
        let found = self.ask_all(operation, self.all()).await;
        if operation == Operation::Renew && found.iter().any(Result::is_ok) {
            // Renewals are independent of each other. A failed one is answered as a permit that was not found.
            return Ok(Outcome::new(
                found.into_iter().map(Result::unwrap_or_default),
            ));
        }
        all_or_nothing(found, false).map(Outcome::new)
    }

    fn all(&self) -> Vec<usize> {
        (0..self.batch.members.len()).collect()
    }

    /// Decides members as batches of their own, all at once.
    async fn ask_all(&self, operation: Operation, indexes: Vec<usize>) -> Vec<MemberAnswer> {
        let asks = indexes.into_iter().map(|index| {
            let mut member = self.batch.members[index];
            if operation == Operation::Peek {
                member.ask.verb = Verb::Peek;
            }
            self.ask(operation, index, member, self.deadline)
        });
        // The first poll puts all calls into the queues of their links. Under the lock, no other batch comes between them, so two
        // batches seldom deny each other.
        let mut asks = pin!(join_all(asks));
        future::poll_fn(|context| {
            let _turn = self.servers.turn().lock();
            asks.as_mut().poll(context)
        })
        .await
    }

    async fn ask(
        &self,
        operation: Operation,
        index: usize,
        member: Member<'_>,
        deadline: Instant,
    ) -> MemberAnswer {
        let is_look = matches!(operation, Operation::Check | Operation::Peek);
        let batch = Batch::new(operation, slice::from_ref(&member)).at(self.batch.now);
        let answers = self.servers.run(&batch, deadline).await;
        let answer = answers.map(|answers| answers.first().copied().unwrap_or_default());
        answer.map_err(|failure| match failure {
            // A look charges nothing, even if its answer is lost.
            Failure::Unknown(error) if is_look => Failure::NotDone(error),
            failure => failure.at(index),
        })
    }

    async fn check_and_spend(&self) -> Result<Outcome, Failure> {
        let batch = self.batch;
        let members = self.batch.members;
        let checked = self.ask_all(Operation::Check, self.all()).await;
        let mut answers = checked.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut all = zip(members, &answers);
        let mut passes = all.all(|(member, answer)| answer.passed || !batch.votes(member));
        let mut is_undone = true;
        if passes && members.iter().any(|member| batch.writes(member)) {
            let spent = self.spend().await?;
            passes = spent.passes;
            is_undone = spent.is_undone;
            for (index, answer) in spent.answers {
                // If the batch is denied, the members that passed were refunded. Their answers follow below.
                if passes || !answer.passed {
                    answers[index] = answer;
                }
            }
        }
        if !passes {
            // The figures of a denied batch are those of the stored buckets. Denied members have them already.
            let passed: Vec<_> = (self.all().into_iter())
                .filter(|index| answers[*index].passed)
                .collect();
            let stored = self.ask_all(Operation::Peek, passed.clone()).await;
            for (index, stored) in zip(passed, stored) {
                // The batch stays denied if this look fails. The figures of the check remain then.
                answers[index] = Answer {
                    passed: batch.votes(&members[index]),
                    charge: Charge::default(),
                    ..stored.unwrap_or(answers[index])
                };
            }
        }
        Ok(Outcome {
            may_be_charged: !passes && !is_undone,
            ..Outcome::new(answers)
        })
    }

    /// Spends in a task, so that the charges of a failed batch are refunded even if the caller leaves.
    async fn spend(&self) -> Result<SpendResult, Failure> {
        let servers = Arc::clone(self.servers);
        let owned = OwnedBatch::from(self.batch);
        let deadline = self.deadline;
        let timeout = self.timeout;
        let spent = self.servers.runtime().spawn(async move {
            let members = owned.members();
            let split = SplitBatch {
                servers: &servers,
                batch: &owned.of(&members),
                deadline,
                timeout,
            };
            split.charge().await
        });
        match time::timeout_at(deadline, spent).await {
            Ok(Ok(spent)) => spent,
            _ => Err(Failure::Unknown(RedisError::Timeout)),
        }
    }

    /// Spends. Each charge is either kept or refunded.
    async fn charge(&self) -> Result<SpendResult, Failure> {
        let members = self.batch.members;
        let mut all = self.all();
        all.retain(|index| self.batch.writes(&members[*index]));
        let can_refund = |index: &usize| can_refund(&members[*index]);
        let (first, last): (_, Vec<_>) = all.into_iter().partition(can_refund);
        let mut indexes = Vec::new();
        let mut found = Vec::new();
        let mut passes = true;
        let last = last.into_iter().map(|index| vec![index]);
        for phase in iter::once(first).chain(last) {
            indexes.extend(phase.iter().copied());
            found.extend(self.ask_all(Operation::Spend, phase).await);
            passes = zip(&indexes, &found).all(|(index, found)| {
                let votes = members[*index].mode().votes();
                found.as_ref().is_ok_and(|answer| answer.passed || !votes)
            });
            if !passes {
                break;
            }
        }
        let is_undone = !passes && self.give_back(&indexes, &found).await;
        let answers = all_or_nothing(found, is_undone)?;
        Ok(SpendResult {
            passes,
            is_undone,
            answers: zip(indexes, answers).collect(),
        })
    }

    /// Refunds the confirmed charges. Returns whether all of them were refunded.
    ///
    /// A charge whose answer was lost is not refunded: it may not have been made, and the refund would give away units that other
    /// requests have used. The refunds have their own timeout, because that of the request may be over.
    async fn give_back(&self, indexes: &[usize], found: &[MemberAnswer]) -> bool {
        let deadline = Instant::now() + self.timeout;
        let confirmed = zip(indexes, found).filter_map(|(index, found)| {
            let charge = found.as_ref().ok()?.charge;
            (charge != Charge::default()).then_some((*index, charge))
        });
        let refunds = confirmed.map(async |(index, charge)| {
            let member = self.batch.members[index];
            let ask = Ask::new(Verb::Refund, charge.units).of(Some(charge));
            let refund = Member { ask, ..member };
            can_refund(&member)
                && charge.units > 0
                && (self.ask(Operation::Refund, index, refund, deadline).await)
                    .is_ok_and(|answer| answer.passed)
        });
        join_all(refunds).await.into_iter().all(|is_back| is_back)
    }
}

struct SpendResult {
    passes: bool,
    /// Whether the charges of a batch that has not passed are refunded.
    is_undone: bool,
    /// The answers of the members that were asked to spend, each with its index.
    answers: Vec<(usize, Answer)>,
}

fn can_refund(member: &Member<'_>) -> bool {
    !matches!(
        member.algorithm(),
        Algorithm::Tiers(_) | Algorithm::Block(_)
    )
}

/// Returns all answers, or a failure. The failure says that nothing was charged only if no outcome is unknown, and the changes of
/// the other members `are_undone`.
fn all_or_nothing(found: Vec<MemberAnswer>, are_undone: bool) -> Result<Vec<Answer>, Failure> {
    let has_changed = !are_undone && found.iter().any(Result::is_ok);
    let failures = found.iter().filter_map(|found| found.as_ref().err());
    let worst = failures.max_by_key(|failure| matches!(failure, Failure::Unknown(_)));
    match worst.cloned() {
        Some(failure) if has_changed => Err(failure.partly()),
        Some(failure) => Err(failure),
        None => found.into_iter().collect(),
    }
}
