//! The one path of all decisions: prepare a batch, apply it, and finish.

use super::{
    Limiter,
    capacity::{Capacity, Many, One},
    limiter_error::LimiterError,
    prepare::Lookups,
    recorder::DecisionRecorder,
};
use crate::{
    backend::{BackendError, Begun},
    clock::Timestamp,
    decision::{BatchDecision, Decision, OneDecision, Outcome},
    limit::Limits,
    transaction::{Batch, Operation, Transaction},
};

impl Limiter {
    /// Decides a single transaction as a batch of one, with room for no more.
    #[inline(always)]
    pub(super) fn try_decide_inlined(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Option<Result<Decision, LimiterError>> {
        let limits = self.in_force();
        let mut one = OneDecision::default();
        match self.try_decide::<One>(&limits, operation, transaction, &mut one)? {
            Ok(()) => Some(one.into_decided()),
            Err(error) => Some(Err(*error)),
        }
    }

    pub(crate) fn try_decide_one(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Option<Result<Decision, LimiterError>> {
        self.try_decide_inlined(operation, transaction)
    }

    pub(crate) async fn decide_one(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Result<Decision, LimiterError> {
        let limits = self.in_force();
        let mut one = OneDecision::default();
        let decided = self.decide::<One>(&limits, operation, transaction, &mut one);
        match decided.await {
            Ok(()) => one.into_decided(),
            Err(error) => Err(*error),
        }
    }

    pub(super) fn try_decide_batch(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Option<Result<BatchDecision, LimiterError>> {
        let limits = self.in_force();
        let mut batch = BatchDecision::default();
        let decided = self.try_decide::<Many>(&limits, operation, transactions, &mut batch)?;
        Some(decided.map(|()| batch).map_err(|error| *error))
    }

    pub(crate) async fn decide_batch(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        let limits = self.in_force();
        let mut batch = BatchDecision::default();
        let decided = self.decide::<Many>(&limits, operation, transactions, &mut batch);
        decided.await.map(|()| batch).map_err(|error| *error)
    }

    /// Decides transactions by these limits, without waiting. If the backend has to wait, returns `None` and changes
    /// nothing.
    #[inline(always)]
    pub(crate) fn try_decide<C: Capacity>(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: C::Transactions<'_>,
        decisions: &mut C::Decisions,
    ) -> Option<Result<(), Box<LimiterError>>> {
        let recorder = self.recorder(limits, operation);
        let (mut ids, mut members) = (C::Ids::default(), C::Members::default());
        let lookups = Lookups { limits, operation };
        match C::prepare(lookups, transactions, &mut ids, &mut members, decisions) {
            Ok(None) => {}
            Ok(Some((members, others))) => {
                let batch = Batch::new(operation, members).at(self.now());
                let applied = self.shared.backend.try_apply(&batch);
                if applied.is_some() {
                    recorder.applied();
                }
                // An outcome is large, so it is borrowed here and not moved.
                let applied = match applied {
                    None => return None,
                    Some(Ok(ref outcome)) => finish::<C>(&batch, outcome, &others, decisions),
                    Some(Err(error)) => Err(failed(error)),
                };
                if let Err(error) = applied {
                    return Some(Err(recorder.failed(transactions, error)));
                }
            }
            Err(error) => return Some(Err(error)),
        }
        recorder.record(transactions, decisions);
        Some(Ok(()))
    }

    /// Decides transactions by these limits, and waits for the backend if necessary.
    async fn decide<C: Capacity>(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: C::Transactions<'_>,
        decisions: &mut C::Decisions,
    ) -> Result<(), Box<LimiterError>> {
        let recorder = self.recorder(limits, operation);
        let (mut ids, mut members) = (C::Ids::default(), C::Members::default());
        let lookups = Lookups { limits, operation };
        let prepared = C::prepare(lookups, transactions, &mut ids, &mut members, decisions)?;
        if let Some((members, others)) = prepared {
            let batch = Batch::new(operation, members).at(self.now());
            // A backend that does not have to wait saves the boxed future.
            let applied = match self.shared.backend.begin(&batch) {
                Begun::Decided(applied) => applied,
                Begun::Waits(applying) => applying.await,
            };
            recorder.applied();
            let applied = match applied {
                Ok(ref outcome) => finish::<C>(&batch, outcome, &others, decisions),
                Err(error) => Err(failed(error)),
            };
            applied.map_err(|error| recorder.failed(transactions, error))?;
        }
        recorder.record(transactions, decisions);
        Ok(())
    }

    #[inline(always)]
    fn recorder<'a>(&'a self, limits: &'a Limits, operation: Operation) -> DecisionRecorder<'a> {
        DecisionRecorder::start(&self.shared.durations, limits, operation)
    }

    fn now(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
    }
}

/// Turns a backend's outcome into decisions. If the backend has broken its contract, this is an error, and the request is
/// not allowed.
#[inline(always)]
fn finish<C: Capacity>(
    batch: &Batch<'_>,
    outcome: &Outcome,
    others: &C::Others,
    decisions: &mut C::Decisions,
) -> Result<(), Box<LimiterError>> {
    if !outcome.answers_all(batch) {
        return Err(broken_contract(batch, outcome));
    }
    if let Some(member) = outcome.no_room() {
        return Err(no_room(batch, member));
    }
    C::gather(batch, outcome, others, decisions);
    Ok(())
}

#[cold]
fn failed(error: BackendError) -> Box<LimiterError> {
    Box::new(error.into())
}

#[cold]
fn broken_contract(batch: &Batch<'_>, outcome: &Outcome) -> Box<LimiterError> {
    let (members, answers) = (batch.members.len(), outcome.answers().len());
    let broken = format!("the backend gave {answers} answers for {members} members");
    failed(BackendError::unavailable(broken))
}

#[cold]
fn no_room(batch: &Batch<'_>, member: usize) -> Box<LimiterError> {
    Box::new(LimiterError::no_room(&batch.members[member]))
}
