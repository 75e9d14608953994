//! From limit names and ids to a batch's members, and from a backend's answers to decisions.

use std::collections::HashSet;

use ahash::RandomState;
use smallvec::SmallVec;

use super::LimiterError;
use crate::{
    backend::BackendError,
    clock::Timestamp,
    decision::{BatchDecision, Decision, Outcome},
    limit::{Limit, LimitName, Limits, NamedLimit},
    transaction::{Batch, BucketKey, Member, Mode, Operation, Transaction},
};

/// A batch's transactions, looked up.
pub(super) struct Resolved<'a> {
    members: SmallVec<[Member<'a>; 4]>,
    /// For each transaction, its mode if it has a limit and so a member.
    modes: SmallVec<[Option<Mode>; 8]>,
}

impl<'a> Resolved<'a> {
    pub(super) fn new(
        limits: &'a Limits,
        operation: Operation,
        transactions: &[Transaction<'a>],
    ) -> Result<Self, LimiterError> {
        let mut resolved = Self {
            members: SmallVec::new(),
            modes: SmallVec::new(),
        };
        for transaction in transactions {
            let in_force = look_up(limits, operation, transaction)?;
            resolved.modes.push(in_force.map(|_| transaction.mode));
            if let Some(in_force) = in_force {
                resolved.members.push(in_force.member(transaction));
            }
        }
        match duplicate(&resolved.members) {
            Some(key) => Err(LimiterError::DuplicateBucket {
                key: key.to_string(),
            }),
            None => Ok(resolved),
        }
    }

    pub(super) fn batch(&self, operation: Operation, now: Option<Timestamp>) -> Batch<'_> {
        Batch::new(operation, &self.members).at(now)
    }

    pub(super) fn conclude(
        &self,
        batch: &Batch<'_>,
        outcome: &Outcome,
    ) -> Result<BatchDecision, LimiterError> {
        ensure_complete(batch, outcome)?;
        let mut decisions = outcome.decisions(batch);
        Ok(BatchDecision::new(self.modes.iter().map(
            |mode| match mode {
                Some(mode) => (
                    decisions.next().unwrap_or(Decision::NOT_LIMITED),
                    mode.votes(),
                ),
                None => (Decision::NOT_LIMITED, false),
            },
        )))
    }

    pub(super) fn not_limited(&self) -> BatchDecision {
        BatchDecision::new(self.modes.iter().map(|_| (Decision::NOT_LIMITED, false)))
    }
}

/// Looks one transaction's limit up, and returns what is in force if it has one.
#[inline]
pub(super) fn look_up<'a>(
    limits: &'a Limits,
    operation: Operation,
    transaction: &Transaction<'_>,
) -> Result<Option<InForce<'a>>, LimiterError> {
    let Some(NamedLimit { name, limit }) = limits.get(transaction.limit) else {
        return Err(LimiterError::unknown_limit(transaction.limit, limits));
    };
    if transaction.id.is_empty() {
        return Err(LimiterError::EmptyId {
            limit: name.to_string(),
        });
    }
    let Some(limit) = limit else { return Ok(None) };
    let bounded = transaction.mode != Mode::Debit && operation != Operation::Reset;
    if bounded && transaction.cost > limit.max_cost() {
        return Err(LimiterError::CostAboveBurst {
            limit: name.to_string(),
            cost: transaction.cost,
            burst: limit.max_cost(),
        });
    }
    Ok(Some(InForce { name, limit }))
}

/// The limit that a transaction is decided by.
#[derive(Clone, Copy)]
pub(super) struct InForce<'a> {
    name: &'a LimitName,
    limit: &'a Limit,
}

impl<'a> InForce<'a> {
    #[inline]
    pub(super) fn member(self, transaction: &Transaction<'a>) -> Member<'a> {
        let key = BucketKey::new(self.name.key(), transaction.id);
        Member::new(
            key,
            self.limit.algorithm(),
            transaction.cost,
            transaction.mode,
        )
    }
}

fn duplicate<'a>(members: &[Member<'a>]) -> Option<BucketKey<'a>> {
    const FEW: usize = 16;
    if members.len() <= FEW {
        let repeats = |(i, member): &(usize, &Member<'a>)| {
            members[..*i]
                .iter()
                .any(|earlier| earlier.key == member.key)
        };
        return members
            .iter()
            .enumerate()
            .find(repeats)
            .map(|(_, member)| member.key);
    }
    let mut seen = HashSet::with_capacity_and_hasher(members.len(), RandomState::new());
    members
        .iter()
        .map(|member| member.key)
        .find(|key| !seen.insert(*key))
}

#[inline(always)]
pub(super) fn only(batch: &Batch<'_>, outcome: &Outcome) -> Result<Decision, LimiterError> {
    ensure_complete(batch, outcome)?;
    Ok(outcome
        .decisions(batch)
        .next()
        .unwrap_or(Decision::NOT_LIMITED))
}

/// A backend that breaks its contract is an error, never a request let through.
#[inline]
fn ensure_complete(batch: &Batch<'_>, outcome: &Outcome) -> Result<(), BackendError> {
    let (members, answers) = (batch.members.len(), outcome.answers().len());
    if members == answers {
        return Ok(());
    }
    let broken = format!("the backend gave {answers} answers for {members} members");
    Err(BackendError::unavailable(broken))
}
