//! Transactions that another backend than memory decides.

use smallvec::SmallVec;

use super::{
    limiter_error::LimiterError,
    prepare::{Lookups, duplicate},
    recorder::DecisionRecorder,
};
use crate::{
    backend::BackendError,
    clock::Timestamp,
    decision::{Decision, Decisions, Outcome, Returned, WithoutBucket},
    id::Id,
    transaction::{Batch, Member, Operation, Transaction},
};

/// The members for transactions, in their order.
pub(super) struct Members<'a> {
    operation: Operation,
    members: SmallVec<[Member<'a>; 4]>,
    /// For each transaction, the result of one that is no member.
    without: SmallVec<[Option<WithoutBucket>; 4]>,
    /// Whether a transaction that is no member denies the batch.
    is_refused: bool,
}

impl<'a> Members<'a> {
    /// Looks transactions up.
    pub(super) fn of(
        lookups: Lookups<'a>,
        transactions: &[Transaction<'a>],
        ids: &'a mut SmallVec<[Option<Id>; 4]>,
    ) -> Result<Self, LimiterError> {
        let operation = lookups.operation;
        let mut all = Self {
            operation,
            members: SmallVec::new(),
            without: SmallVec::new(),
            is_refused: false,
        };
        for (transaction, room) in transactions.iter().zip(ids) {
            let member = lookups.member(transaction, room)?;
            all.is_refused |= member.is_err_and(|other| other.refuses(operation));
            all.without.push(member.err());
            all.members.extend(member.ok());
        }
        let bucket = |place: usize| all.members.get(place).map(|member| &member.fingerprint);
        match duplicate(all.members.len(), bucket) {
            None => Ok(all),
            Some(place) => {
                let has_secrets = transactions.iter().any(Transaction::is_secret);
                let key = all.members[place].key;
                Err(LimiterError::duplicate_bucket(key, has_secrets))
            }
        }
    }

    /// Returns whether a backend has to decide.
    pub(super) fn are_needed(&self) -> bool {
        !self.members.is_empty() && !self.is_refused
    }

    pub(super) fn batch(&self, now: Option<Timestamp>) -> Batch<'_> {
        Batch::new(self.operation, &self.members).at(now)
    }

    /// Returns the decisions on a batch that needs no backend.
    #[cold]
    pub(super) fn without_backend<D: Returned>(
        &self,
        recorder: DecisionRecorder<'_>,
        transactions: &[Transaction<'_>],
    ) -> D {
        let mut decided = D::nothing();
        let places = decided.room(self.without.len());
        for (other, decision) in self.without.iter().zip(places) {
            *decision = match other {
                Some(other) => other.decision(self.operation),
                None => Decision::NOT_LIMITED,
            };
        }
        recorder.record(transactions, &decided);
        decided
    }

    /// Turns a backend's outcome into decisions. If the backend has broken its contract, this is an error, and the request
    /// is not allowed.
    pub(super) fn finish<D: Returned>(
        &self,
        recorder: DecisionRecorder<'_>,
        transactions: &[Transaction<'_>],
        batch: &Batch<'_>,
        applied: Result<Outcome, BackendError>,
    ) -> Result<D, LimiterError> {
        let mut decided = D::nothing();
        let shown = applied
            .map_err(LimiterError::from)
            .and_then(|outcome| self.show(transactions, batch, &outcome, &mut decided));
        match shown {
            Ok(()) => recorder.record(transactions, &decided),
            Err(error) => return Err(recorder.failed(transactions, error)),
        }
        Ok(decided)
    }

    fn show(
        &self,
        transactions: &[Transaction<'_>],
        batch: &Batch<'_>,
        outcome: &Outcome,
        decided: &mut impl Decisions,
    ) -> Result<(), LimiterError> {
        if !outcome.answers_all(batch) {
            return Err(wrong_number(batch, outcome).into());
        }
        if let Some(member) = outcome.no_room() {
            let mut asked = transactions.iter().zip(&self.without);
            let asked = asked.by_ref().filter(|(_, other)| other.is_none());
            let asked = asked.map(|(transaction, _)| transaction).nth(member);
            return Err(asked.map_or_else(of_another_batch, LimiterError::no_room));
        }
        let passes = outcome.passes(batch);
        let mut members = 0..batch.members.len();
        let places = decided.room(self.without.len());
        for (other, decision) in self.without.iter().zip(places) {
            let is_answered = match other {
                Some(other) => {
                    *decision = other.decision(self.operation);
                    true
                }
                None => members
                    .next()
                    .is_some_and(|member| outcome.decide_on(batch, member, passes, decision)),
            };
            if !is_answered {
                return Err(of_another_batch());
            }
        }
        Ok(())
    }
}

#[cold]
pub(super) fn of_another_batch() -> LimiterError {
    let error = "the backend answered another batch: it has figures of another algorithm";
    BackendError::unavailable(error).into()
}

#[cold]
pub(super) fn wrong_number(batch: &Batch<'_>, outcome: &Outcome) -> BackendError {
    let (members, answers) = (batch.members.len(), outcome.answers().len());
    BackendError::unavailable(format!(
        "the backend gave {answers} answers for {members} members"
    ))
}
