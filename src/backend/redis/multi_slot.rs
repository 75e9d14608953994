//! A batch whose buckets are in several slots of a cluster. A script can only use the keys of one slot, so no script sees all
//! of them. The batch is decided member by member, in phases:
//!
//! 1. All members are checked. If a voting one is denied, nothing is charged, and the figures of the others are looked up. So a
//!    client that is denied anyway never takes from others' buckets, even for a moment.
//! 2. The members are spent, all at once; those whose charges cannot be refunded (tiers and blocks) last, one by one.
//!
//! If a member is denied in phase 2, because another request has come in between, or fails, all confirmed charges are refunded
//! by their receipts. A task does that, which outlives the request. The error says that nothing was charged only if that is
//! certain. A batch never admits too much. Until the refunds arrive, other requests of the same clients can be denied.
//!
//! A batch within one slot takes the same phases while that slot is being moved to another server, because a script cannot
//! run on keys of which some have moved.

use std::{
    future,
    iter::{self, zip},
    pin::pin,
    slice,
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::{self, Instant};

use super::{
    error::{Failure, RedisError},
    home::Home,
    servers::Servers,
};
use crate::{
    algorithm::{Algorithm, Ask, Charge, Verb},
    batch::OwnedBatch,
    batch::{Batch, Member},
    decision::{Answer, Outcome},
    transaction::Operation,
};

type MemberAnswer = Result<Answer, Failure>;

/// Decides a batch, by one script if that is possible.
pub(super) async fn apply(
    home: &Arc<Home>,
    batch: &Batch<'_>,
    timeout: Duration,
) -> Result<Outcome, Failure> {
    let deadline = Instant::now() + timeout;
    let servers = &home.servers().await?;
    let is_one = batch.members.len() <= 1;
    if is_one || batch.operation != Operation::Renew && servers.share_a_slot(batch) {
        match servers.run(batch, deadline).await {
            Err(Failure::TryAgain) if !is_one => {}
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

/// A batch that is decided member by member, and the means to do so.
struct SplitBatch<'a> {
    servers: &'a Arc<Servers>,
    batch: &'a Batch<'a>,
    deadline: Instant,
    /// The longest that refunds may take.
    timeout: Duration,
}

impl SplitBatch<'_> {
    async fn decide(&self) -> Result<Outcome, Failure> {
        let operation = self.batch.operation;
        if matches!(operation, Operation::Check | Operation::Spend) {
            return self.check_and_spend().await;
        }
        let found = self.ask_all(operation, self.all()).await;
        if operation == Operation::Renew && found.iter().any(Result::is_ok) {
            // Renewals are independent of each other, and nobody knows about members that fail.
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
    async fn ask_all(&self, operation: Operation, places: Vec<usize>) -> Vec<MemberAnswer> {
        let asks = places.into_iter().map(|place| {
            let mut member = self.batch.members[place];
            if operation == Operation::Peek {
                member.ask.verb = Verb::Peek;
            }
            self.ask(operation, place, member, self.deadline)
        });
        // They are in the queues of their links after the first poll. No other batch comes between them, so that two batches
        // seldom deny each other.
        let mut asks = pin!(join_all(asks));
        future::poll_fn(|context| {
            let _turn = self.servers.turn.lock();
            asks.as_mut().poll(context)
        })
        .await
    }

    async fn ask(
        &self,
        operation: Operation,
        place: usize,
        member: Member<'_>,
        deadline: Instant,
    ) -> MemberAnswer {
        let is_look = matches!(operation, Operation::Check | Operation::Peek);
        let batch = Batch::new(operation, slice::from_ref(&member)).at(self.batch.now);
        let answers = self.servers.run(&batch, deadline).await;
        let answer = answers.map(|answers| answers.first().copied().unwrap_or_default());
        answer.map_err(|failure| match failure {
            // Whether it was done or not, it has charged nothing.
            Failure::Unknown(error) if is_look => Failure::NotDone(error),
            failure => failure.at(place),
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
            for (place, answer) in spent.answers {
                // A denied batch has refunded the members that passed.
                if passes || !answer.passed {
                    answers[place] = answer;
                }
            }
        }
        if !passes {
            // A denied batch shows what is stored. Denied members show it already.
            let passed: Vec<_> = (self.all().into_iter())
                .filter(|place| answers[*place].passed)
                .collect();
            let stored = self.ask_all(Operation::Peek, passed.clone()).await;
            for (place, stored) in zip(passed, stored) {
                // The batch is denied in any case. Without an answer, the figures of the check remain.
                answers[place] = Answer {
                    passed: batch.votes(&members[place]),
                    charge: Charge::default(),
                    ..stored.unwrap_or(answers[place])
                };
            }
        }
        Ok(Outcome {
            may_be_charged: !passes && !is_undone,
            ..Outcome::new(answers)
        })
    }

    /// Spends in a task, which refunds the charges of a batch that fails even if the caller leaves.
    async fn spend(&self) -> Result<Spent, Failure> {
        let servers = Arc::clone(self.servers);
        let owned = OwnedBatch::from(self.batch);
        let deadline = self.deadline;
        let timeout = self.timeout;
        let spent = self.servers.runtime.spawn(async move {
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
    async fn charge(&self) -> Result<Spent, Failure> {
        let members = self.batch.members;
        let mut all = self.all();
        all.retain(|place| self.batch.writes(&members[*place]));
        let can_refund = |place: &usize| can_refund(&members[*place]);
        let (first, last): (_, Vec<_>) = all.into_iter().partition(can_refund);
        let mut places = Vec::new();
        let mut found = Vec::new();
        let mut passes = true;
        let last = last.into_iter().map(|place| vec![place]);
        for phase in iter::once(first).chain(last) {
            places.extend(phase.iter().copied());
            found.extend(self.ask_all(Operation::Spend, phase).await);
            passes = zip(&places, &found).all(|(place, found)| {
                let votes = members[*place].mode().votes();
                found.as_ref().is_ok_and(|answer| answer.passed || !votes)
            });
            if !passes {
                break;
            }
        }
        let is_undone = !passes && self.give_back(&places, &found).await;
        let answers = all_or_nothing(found, is_undone)?;
        Ok(Spent {
            passes,
            is_undone,
            answers: zip(places, answers).collect(),
        })
    }

    /// Refunds the confirmed charges. Returns whether nothing of them is left.
    ///
    /// If an answer was lost, the charge may not have been made, and its refund would give away units that others have
    /// paid for. The refunds have their own timeout, because the request's may be over by now.
    async fn give_back(&self, places: &[usize], found: &[MemberAnswer]) -> bool {
        let deadline = Instant::now() + self.timeout;
        let confirmed = zip(places, found).filter_map(|(place, found)| {
            let charge = found.as_ref().ok()?.charge;
            (charge != Charge::default()).then_some((*place, charge))
        });
        let refunds = confirmed.map(async |(place, charge)| {
            let member = self.batch.members[place];
            let ask = Ask::new(Verb::Refund, charge.units).of(Some(charge));
            let refund = Member { ask, ..member };
            can_refund(&member)
                && charge.units > 0
                && (self.ask(Operation::Refund, place, refund, deadline).await)
                    .is_ok_and(|answer| answer.passed)
        });
        join_all(refunds).await.into_iter().all(|is_back| is_back)
    }
}

struct Spent {
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

/// Returns all answers, or a failure. The failure is certain only if none has an unknown outcome, and the changes of the others
/// `are_undone`.
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
