//! From transactions to decisions: at once if they are plain, and otherwise prepare a batch, apply it, and finish.

use super::{
    Limiter,
    capacity::{Capacity, Many, One, Prepared},
    in_force::DecisionLimits,
    limiter_error::LimiterError,
    prepare::Lookups,
    recorder::DecisionRecorder,
};
use crate::{
    backend::{BackendError, Begun},
    clock::Timestamp,
    decision::{BatchDecision, Decision, Outcome},
    limit::Limits,
    transaction::{Batch, Operation, Transaction},
};

impl Limiter {
    /// Decides a single transaction. Spends have tried [`try_plain`](Self::try_plain) before, which decides by the first
    /// limits, so GCRA is not tried again by these.
    #[inline(never)]
    pub(crate) fn try_decide_one(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Option<Result<Decision, LimiterError>> {
        match self.in_force() {
            DecisionLimits::First(limits) => {
                self.try_decide_after_gcra::<One>(limits, operation, transaction)
            }
            DecisionLimits::Latest(limits) => {
                self.try_decide::<One>(&limits, operation, transaction)
            }
        }
    }

    pub(crate) async fn decide_one(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Result<Decision, LimiterError> {
        let limits = self.in_force();
        self.decide::<One>(&limits, operation, transaction).await
    }

    pub(super) fn try_decide_batch(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Option<Result<BatchDecision, LimiterError>> {
        let limits = self.in_force();
        self.try_decide::<Many>(&limits, operation, transactions)
    }

    pub(crate) async fn decide_batch(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        let limits = self.in_force();
        self.decide_batch_by(&limits, operation, transactions).await
    }

    /// Decides a batch by these limits, even if others are in force by now.
    pub(crate) async fn decide_batch_by(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        self.decide::<Many>(limits, operation, transactions).await
    }

    /// Decides transactions by these limits, without waiting. If the backend has to wait, returns `None` and changes
    /// nothing.
    #[inline(always)]
    pub(crate) fn try_decide<C: Capacity>(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: C::Transactions<'_>,
    ) -> Option<Result<C::Decided, LimiterError>> {
        match self.decide_plain_gcra::<C>(limits, operation, transactions) {
            Some(decided) => Some(Ok(decided)),
            None => self.try_decide_after_gcra::<C>(limits, operation, transactions),
        }
    }

    /// Decides transactions that are no plain charge by GCRA.
    #[inline(never)]
    fn try_decide_after_gcra<C: Capacity>(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: C::Transactions<'_>,
    ) -> Option<Result<C::Decided, LimiterError>> {
        match self.decide_plain_quota::<C>(limits, operation, transactions) {
            Some(decided) => Some(Ok(decided)),
            None => self.try_decide_in_full::<C>(limits, operation, transactions),
        }
    }

    /// Decides transactions in a batch.
    pub(super) fn try_decide_in_full<C: Capacity>(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: C::Transactions<'_>,
    ) -> Option<Result<C::Decided, LimiterError>> {
        let recorder = self.recorder(limits, operation);
        let (mut ids, mut members) = (C::Ids::default(), C::Members::default());
        let lookups = Lookups { limits, operation };
        let (members, others) = match C::prepare(lookups, transactions, &mut ids, &mut members) {
            Ok(Prepared::Members(members, others)) => (members, others),
            Ok(Prepared::Decided(decided)) => {
                return Some(Ok(recorder.recorded(transactions, decided)));
            }
            Err(error) => return Some(Err(*error)),
        };
        let batch = Batch::new(operation, members).at(self.now());
        match self.shared.backend.try_apply(&batch) {
            None => None,
            Some(Ok(ref outcome)) => {
                recorder.applied();
                Some(finish::<C>(
                    &recorder,
                    transactions,
                    &batch,
                    outcome,
                    &others,
                ))
            }
            Some(Err(error)) => {
                recorder.applied();
                Some(Err(recorder.failed(transactions, error.into())))
            }
        }
    }

    /// Decides transactions by these limits, and waits for the backend if necessary.
    async fn decide<C: Capacity>(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: C::Transactions<'_>,
    ) -> Result<C::Decided, LimiterError> {
        let plain = self.decide_plain_gcra::<C>(limits, operation, transactions);
        let plain = plain.or_else(|| self.decide_plain_quota::<C>(limits, operation, transactions));
        if let Some(decided) = plain {
            return Ok(decided);
        }
        let recorder = self.recorder(limits, operation);
        let (mut ids, mut members) = (C::Ids::default(), C::Members::default());
        let lookups = Lookups { limits, operation };
        let (members, others) = match C::prepare(lookups, transactions, &mut ids, &mut members) {
            Ok(Prepared::Members(members, others)) => (members, others),
            Ok(Prepared::Decided(decided)) => return Ok(recorder.recorded(transactions, decided)),
            Err(error) => return Err(*error),
        };
        let batch = Batch::new(operation, members).at(self.now());
        // A backend that does not have to wait saves the boxed future. Its outcome is large, and is not moved.
        let applying = match self.shared.backend.begin(&batch) {
            Begun::Waits(applying) => applying,
            Begun::Decided(Ok(ref outcome)) => {
                recorder.applied();
                return finish::<C>(&recorder, transactions, &batch, outcome, &others);
            }
            Begun::Decided(Err(error)) => {
                recorder.applied();
                return Err(recorder.failed(transactions, error.into()));
            }
        };
        let applied = applying.await;
        recorder.applied();
        match applied {
            Ok(ref outcome) => finish::<C>(&recorder, transactions, &batch, outcome, &others),
            Err(error) => Err(recorder.failed(transactions, error.into())),
        }
    }

    #[inline(always)]
    pub(super) fn recorder<'a>(
        &'a self,
        limits: &'a Limits,
        operation: Operation,
    ) -> DecisionRecorder<'a> {
        DecisionRecorder::start(&self.shared.durations, limits, operation)
    }

    pub(super) fn now(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
    }
}

/// Turns a backend's outcome into decisions. If the backend has broken its contract, this is an error, and the request is
/// not allowed.
#[inline(always)]
fn finish<C: Capacity>(
    recorder: &DecisionRecorder<'_>,
    transactions: C::Transactions<'_>,
    batch: &Batch<'_>,
    outcome: &Outcome,
    others: &C::Others,
) -> Result<C::Decided, LimiterError> {
    let mut decided = C::nothing();
    if !outcome.answers_all(batch) || outcome.no_room().is_some() {
        return Err(recorder.failed(transactions, broken(batch, outcome)));
    }
    if !C::gather(batch, outcome, others, &mut decided) {
        return Err(recorder.failed(transactions, of_another_batch()));
    }
    recorder.record(transactions, &decided);
    Ok(decided)
}

#[cold]
fn broken(batch: &Batch<'_>, outcome: &Outcome) -> LimiterError {
    match outcome.no_room() {
        Some(member) if outcome.answers_all(batch) => LimiterError::no_room(&batch.members[member]),
        _ => wrong_number(batch, outcome).into(),
    }
}

#[cold]
fn of_another_batch() -> LimiterError {
    let error = "the backend answered another batch: it has figures of another algorithm";
    BackendError::unavailable(error).into()
}

#[cold]
fn wrong_number(batch: &Batch<'_>, outcome: &Outcome) -> BackendError {
    let (members, answers) = (batch.members.len(), outcome.answers().len());
    BackendError::unavailable(format!(
        "the backend gave {answers} answers for {members} members"
    ))
}
