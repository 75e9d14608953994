//! The path of a decision: prepare the members, ask the backend, turn its answers into decisions, record.

use std::{iter::zip, slice};

use smallvec::SmallVec;

use super::{
    Limiter, Transaction,
    correction::Correction,
    error::LimiterError,
    permits::UnansweredPermits,
    record::{is_recorded, record, record_failure, record_one},
};
use crate::{
    backend::BackendError,
    batch::{Batch, Member, OwnedMember},
    decision::{Answer, Decision, Source},
    id::Id,
    metrics::Stopwatch,
    transaction::Operation,
};

/// The members of a batch, in the order of their transactions.
pub(crate) type Members<'a> = SmallVec<[Member<'a>; 4]>;

/// Boxed, so that results without errors stay small.
pub(crate) type BoxedLimiterError = Box<LimiterError>;

impl Limiter {
    /// Decides one transaction, at once or by waiting for the backend.
    pub(crate) async fn one(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Result<Decision, LimiterError> {
        match self.try_one(operation, transaction, owned) {
            Ok(Ok(decision)) => Ok(decision),
            Ok(Err(member)) => self.wait_for_one(operation, &member).await,
            Err(error) => Err(*error),
        }
    }

    /// Decides transactions, at once or by waiting for the backend. Each decision is written at the index of its transaction.
    pub(crate) async fn many(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
        decisions: &mut [Decision],
    ) -> Result<(), LimiterError> {
        match self.try_many(operation, transactions, decisions, owned) {
            Ok(None) => Ok(()),
            Ok(Some(members)) => self.wait(operation, &members, decisions).await,
            Err(error) => Err(*error),
        }
    }

    /// Decides one transaction if the backend answers at once. Otherwise, returns the result of `wait` for its member.
    #[inline(always)]
    pub(super) fn try_one<W>(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
        wait: impl FnOnce(&[Member<'_>]) -> W,
    ) -> Result<Result<Decision, W>, BoxedLimiterError> {
        let limits = self.in_force();
        let mut folded = None;
        let mut member = None;
        let member = self.prepare(operation, &limits, transaction, &mut folded, &mut member)?;
        let decided = self.decide_one(operation, member)?;
        Ok(decided.ok_or_else(|| wait(slice::from_ref(member))))
    }

    /// Does the same for several transactions. Each decision is written at the index of its transaction.
    pub(super) fn try_many<W>(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
        decisions: &mut [Decision],
        wait: impl FnOnce(&[Member<'_>]) -> W,
    ) -> Result<Option<W>, BoxedLimiterError> {
        let limits = self.in_force();
        let mut folded: SmallVec<[Option<Id>; 4]> = transactions.iter().map(|_| None).collect();
        let members = self.prepare_all(operation, &limits, transactions, &mut folded)?;
        let is_decided = self.decide_all(operation, &members, decisions)?;
        Ok((!is_decided).then(|| wait(&members)))
    }

    /// Prepares the member of a transaction for a task that outlives its caller.
    pub(super) fn client(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Result<OwnedMember, LimiterError> {
        let limits = self.in_force();
        let mut folded = None;
        let mut member = None;
        let member = self.prepare(operation, &limits, transaction, &mut folded, &mut member);
        let member = member.map_err(|error| *error)?;
        Ok(OwnedMember::from(&*member))
    }

    /// Decides a prepared member, at once or by waiting for the backend.
    pub(super) async fn decide(
        &self,
        operation: Operation,
        client: &OwnedMember,
    ) -> Result<Decision, LimiterError> {
        let decided = self.decide_one(operation, &client.as_member());
        if let Some(decision) = decided.map_err(|error| *error)? {
            return Ok(decision);
        }
        self.wait_for_one(operation, slice::from_ref(client)).await
    }

    /// Corrects the charge of a client, at once or by waiting for the backend.
    pub(crate) async fn correct(
        &self,
        client: &OwnedMember,
        correction: Correction<'_>,
    ) -> Result<Decision, LimiterError> {
        let decided = self.try_correct(client, &correction);
        match decided.map_err(|error| *error)? {
            Ok(decision) => Ok(decision),
            Err(member) => self.wait_for_one(correction.operation, &member).await,
        }
    }

    fn try_correct(
        &self,
        client: &OwnedMember,
        correction: &Correction<'_>,
    ) -> Result<Result<Decision, Vec<OwnedMember>>, BoxedLimiterError> {
        let limits = self.in_force();
        let member = self.prepare_correction(&limits, client, correction)?;
        let decided = self.decide_one(correction.operation, &member)?;
        Ok(decided.ok_or_else(|| owned(slice::from_ref(&member))))
    }

    /// Decides a single member if the backend answers at once. Making it a list would take longer than its arithmetic.
    // Inlined, because the decision would otherwise be moved once more, which takes 4 of 78 ns.
    #[inline(always)]
    pub(crate) fn decide_one(
        &self,
        operation: Operation,
        member: &Member<'_>,
    ) -> Result<Option<Decision>, BoxedLimiterError> {
        let members = slice::from_ref(member);
        let mut answer = Answer::default();
        if let Some(decision) = Decision::without_bucket(operation, member) {
            record(operation, members, slice::from_ref(&decision));
            return Ok(Some(decision));
        }
        let asked = self.ask_at_once(operation, members, slice::from_mut(&mut answer));
        let source = match asked {
            Ok(Some(source)) => source,
            Ok(None) => return Ok(None),
            Err(error) => return Err(failed(operation, members, error)),
        };
        let passes = answer.passed || !Batch::new(operation, members).votes(member);
        if is_recorded(operation) {
            record_one(operation, member, &answer, source, passes);
        }
        Ok(Some(Decision::new(
            operation, member, &answer, source, passes,
        )))
    }

    /// Decides members, if the backend answers at once. Each decision is written at the index of its member.
    #[inline(never)]
    pub(crate) fn decide_all(
        &self,
        operation: Operation,
        members: &[Member<'_>],
        decisions: &mut [Decision],
    ) -> Result<bool, BoxedLimiterError> {
        let mut some = Members::new();
        let asked = asked(operation, members, &mut some, decisions);
        if !asked.is_empty() {
            let mut answers = SmallVec::<[Answer; 4]>::from_elem(Answer::default(), asked.len());
            let source = match self.ask_at_once(operation, asked, &mut answers) {
                Ok(Some(source)) => source,
                Ok(None) => return Ok(false),
                Err(error) => return Err(failed(operation, members, error)),
            };
            let batch = Batch::new(operation, asked);
            conclude(&batch, members, &answers, source, decisions);
        }
        record(operation, members, decisions);
        Ok(true)
    }

    #[inline(always)]
    fn ask_at_once(
        &self,
        operation: Operation,
        members: &[Member<'_>],
        answers: &mut [Answer],
    ) -> Result<Option<Source>, BackendError> {
        let batch = Batch::new(operation, members).at(self.now());
        let since = Stopwatch::start();
        let source = self.shared.backend.try_apply(&batch, answers).transpose()?;
        if source.is_some() {
            self.shared.durations.record(operation, since);
        }
        Ok(source)
    }

    async fn wait_for_one(
        &self,
        operation: Operation,
        member: &[OwnedMember],
    ) -> Result<Decision, LimiterError> {
        let mut decision = Decision::NOT_LIMITED;
        let decisions = slice::from_mut(&mut decision);
        self.wait(operation, member, decisions).await?;
        Ok(decision)
    }

    /// Decides members by waiting for the backend.
    pub(crate) async fn wait(
        &self,
        operation: Operation,
        members: &[OwnedMember],
        decisions: &mut [Decision],
    ) -> Result<(), LimiterError> {
        let members: Members<'_> = members.iter().map(OwnedMember::as_member).collect();
        let mut some = Members::new();
        let asked = asked(operation, &members, &mut some, decisions);
        let batch = Batch::new(operation, asked).at(self.now());
        let since = Stopwatch::start();
        let permits = UnansweredPermits::of_batch(self, &batch);
        let outcome = self.shared.backend.apply(&batch).await;
        self.shared.durations.record(operation, since);
        let error = match outcome {
            Ok(outcome) if outcome.answers.len() == asked.len() => {
                if !outcome.may_be_charged {
                    permits.are_answered();
                }
                conclude(
                    &batch,
                    &members,
                    &outcome.answers,
                    outcome.source,
                    decisions,
                );
                record(operation, &members, decisions);
                return Ok(());
            }
            Ok(_) => BackendError::unavailable("its answer is one to another batch"),
            Err(error) => error,
        };
        if !matches!(error, BackendError::Unavailable(_)) {
            permits.are_answered();
        }
        Err(*failed(operation, &members, error))
    }
}

#[cold]
fn failed(operation: Operation, members: &[Member<'_>], error: BackendError) -> BoxedLimiterError {
    let error = LimiterError::not_decided(error, members);
    record_failure(operation, members, &error);
    Box::new(error)
}

/// Returns copies of members that own their data.
pub(crate) fn owned(members: &[Member<'_>]) -> Vec<OwnedMember> {
    members.iter().map(OwnedMember::from).collect()
}

/// Returns the members that the backend has to decide, and writes the decisions on the others. If one of the others denies the
/// batch, the backend is not asked.
#[inline]
fn asked<'m, 'a>(
    operation: Operation,
    members: &'m [Member<'a>],
    some: &'m mut Members<'a>,
    decisions: &mut [Decision],
) -> &'m [Member<'a>] {
    if members.iter().all(Member::has_bucket) {
        return members;
    }
    for (member, decision) in zip(members, &mut *decisions) {
        if let Some(known) = Decision::without_bucket(operation, member) {
            *decision = known;
        }
    }
    if !decisions.iter().any(Decision::denies) {
        let asked = members.iter().filter(|member| member.has_bucket());
        some.extend(asked.copied());
    }
    some
}

/// Writes the decisions on the members that the backend has decided.
#[inline]
fn conclude(
    batch: &Batch<'_>,
    members: &[Member<'_>],
    answers: &[Answer],
    source: Source,
    decisions: &mut [Decision],
) {
    let mut judged = zip(batch.members, answers);
    let passes = judged.all(|(member, answer)| answer.passed || !batch.votes(member));
    let pairs = zip(members, decisions);
    let pairs = pairs.filter(|(member, _)| member.has_bucket());
    for ((member, decision), answer) in zip(pairs, answers) {
        *decision = Decision::new(batch.operation, member, answer, source, passes);
    }
}
