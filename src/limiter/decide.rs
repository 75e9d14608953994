//! The path of a decision: look up the limits, prepare the members, ask the backend, turn its answers into decisions, record.

use std::{iter::zip, slice};

use smallvec::SmallVec;

use super::{Limiter, Transaction, error::LimiterError, lookup::rooms, permits::AskedPermits};
use crate::{
    backend::BackendError,
    decision::{Answer, Decision, Source},
    limit::Limits,
    metrics::Stopwatch,
    transaction::{Batch, Member, Operation},
};

/// The members of a batch, in the order of their transactions. Transactions without a bucket have no member.
pub(super) type Members<'a> = SmallVec<[Member<'a>; 4]>;

/// Boxed, so that results without errors stay small.
pub(super) type Failed = Box<LimiterError>;

impl Limiter {
    /// Decides one transaction, at once or by waiting for the backend.
    pub(crate) async fn one(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Result<Decision, LimiterError> {
        let decided = self.try_one(&self.in_force(), operation, transaction);
        match decided {
            Ok(Some(decision)) => Ok(decision),
            Ok(None) => {
                let (limits, mut decision) = (self.limits(), Decision::NOT_LIMITED);
                let decisions = slice::from_mut(&mut decision);
                self.wait(&limits, operation, slice::from_ref(transaction), decisions)
                    .await?;
                Ok(decision)
            }
            Err(error) => Err(*error),
        }
    }

    /// Decides transactions, at once or by waiting for the backend. Each decision is written to the place of its transaction.
    pub(crate) async fn many(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
        decisions: &mut [Decision],
    ) -> Result<(), LimiterError> {
        let decided = self.try_many(&self.in_force(), operation, transactions, decisions);
        match decided {
            Ok(Some(())) => Ok(()),
            Ok(None) => {
                let limits = self.limits();
                self.wait(&limits, operation, transactions, decisions).await
            }
            Err(error) => Err(*error),
        }
    }

    /// Decides one transaction, if the backend answers at once. A list of members would take longer than the arithmetic of
    /// one.
    // Out of line, the decision is moved once more, which takes 4 of 78 ns.
    #[inline(always)]
    pub(crate) fn try_one(
        &self,
        limits: &Limits,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Result<Option<Decision>, Failed> {
        let call = Call::new(self, limits, operation);
        let (mut folded, mut member) = (None, None);
        let add = |found| member = Some(found);
        let mut without = call.look_up(transaction, 0, &mut folded, add)?;
        if let Some(member) = &mut member {
            without = call.accept(transaction, member)?;
        }
        let (Some(member), None) = (&member, &without) else {
            call.record(slice::from_ref(transaction), without.as_slice());
            return Ok(without);
        };
        let mut answer = Answer::default();
        let (members, answers) = (slice::from_ref(member), slice::from_mut(&mut answer));
        let Some(source) = call.ask_at_once(slice::from_ref(transaction), members, answers)? else {
            return Ok(None);
        };
        let passes = answer.passed || !call.batch(members).votes(member);
        if call.is_recorded() {
            call.record_one(transaction, member, &answer, source, passes);
        }
        Ok(Some(Decision::new(
            operation, member, &answer, source, passes,
        )))
    }

    /// Decides transactions, if the backend answers at once. Each decision is written to the place of its transaction.
    pub(crate) fn try_many(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
        decisions: &mut [Decision],
    ) -> Result<Option<()>, Failed> {
        let call = Call::new(self, limits, operation);
        let (mut folded, mut members) = (rooms(transactions), Members::new());
        call.look_up_all(transactions, &mut folded, &mut members, decisions)?;
        let mut answers = SmallVec::<[Answer; 4]>::from_elem(Answer::default(), members.len());
        let Some(source) = call.ask_at_once(transactions, &members, &mut answers)? else {
            return Ok(None);
        };
        call.conclude(transactions, &members, &answers, source, decisions);
        Ok(Some(()))
    }

    /// Decides transactions where the backend does not answer at once.
    pub(crate) async fn wait(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
        decisions: &mut [Decision],
    ) -> Result<(), LimiterError> {
        let call = Call::new(self, limits, operation);
        let (mut folded, mut members) = (rooms(transactions), Members::new());
        let looked = call.look_up_all(transactions, &mut folded, &mut members, decisions);
        looked.map_err(|error| *error)?;
        let batch = call.batch(&members);
        let since = Stopwatch::start();
        let permits = AskedPermits::new(self, &batch, transactions);
        let outcome = self.shared.backend.apply(&batch).await;
        call.record_duration(since);
        let error = match outcome {
            Ok(outcome) if outcome.answers.len() == members.len() => {
                if !outcome.may_be_charged {
                    permits.are_answered();
                }
                let (answers, source) = (&outcome.answers, outcome.source);
                call.conclude(transactions, &members, answers, source, decisions);
                return Ok(());
            }
            Ok(_) => BackendError::unavailable("its answer is one to another batch"),
            Err(error) => error,
        };
        if !matches!(error, BackendError::Unavailable(_)) {
            permits.are_answered();
        }
        Err(*call.failed(transactions, &members, error))
    }
}

/// An operation on some transactions, by the limits in force.
pub(super) struct Call<'a> {
    pub(super) limiter: &'a Limiter,
    pub(super) limits: &'a Limits,
    pub(super) operation: Operation,
}

impl<'a> Call<'a> {
    #[inline]
    fn new(limiter: &'a Limiter, limits: &'a Limits, operation: Operation) -> Self {
        Self {
            limiter,
            limits,
            operation,
        }
    }

    #[inline]
    fn batch<'m>(&self, members: &'m [Member<'m>]) -> Batch<'m> {
        Batch::new(self.operation, members).at(self.limiter.now())
    }

    /// Asks the backend, if it answers at once. A batch without members needs no backend.
    #[inline]
    fn ask_at_once(
        &self,
        transactions: &[Transaction<'_>],
        members: &[Member<'_>],
        answers: &mut [Answer],
    ) -> Result<Option<Source>, Failed> {
        if members.is_empty() {
            return Ok(Some(Source::Store));
        }
        let since = Stopwatch::start();
        let decided = self
            .limiter
            .shared
            .backend
            .try_apply(&self.batch(members), answers);
        match decided {
            None => Ok(None),
            Some(Ok(source)) => {
                self.record_duration(since);
                Ok(Some(source))
            }
            Some(Err(error)) => Err(self.failed(transactions, members, error)),
        }
    }

    /// Writes the decisions on the members to the places of their transactions, and records all decisions.
    fn conclude(
        &self,
        transactions: &[Transaction<'_>],
        members: &[Member<'_>],
        answers: &[Answer],
        source: Source,
        decisions: &mut [Decision],
    ) {
        let batch = Batch::new(self.operation, members);
        let mut judged = zip(members, answers);
        let passes = judged.all(|(member, answer)| answer.passed || !batch.votes(member));
        for (member, answer) in zip(members, answers) {
            let decision = Decision::new(self.operation, member, answer, source, passes);
            decisions[member.place] = decision;
        }
        self.record(transactions, decisions);
    }

    #[cold]
    fn failed(
        &self,
        transactions: &[Transaction<'_>],
        members: &[Member<'_>],
        error: BackendError,
    ) -> Failed {
        let error = LimiterError::not_decided(error, transactions, members);
        self.record_failure(transactions, &error);
        Box::new(error)
    }
}
