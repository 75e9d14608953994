//! From transactions to decisions: look them up, let the backend decide, and finish.

use std::slice;

use super::{
    Limiter, backend_dispatch::BackendDispatch, claims::Claims, limiter_error::LimiterError,
    members::Members, prepare::Lookups, recorder::DecisionRecorder, transactions::Transactions,
};
use crate::{
    backend::{Backend, MaybeReady, MemoryBackend, ask_boxed},
    clock::Timestamp,
    decision::{BatchDecision, Decision, Decisions},
    few::{Any, Count, Exactly, counted},
    limit::Limits,
    transaction::{Operation, Transaction},
};

impl Limiter {
    pub(crate) fn try_decide_one(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Option<Result<Decision, LimiterError>> {
        self.try_decide(operation, slice::from_ref(transaction))
    }

    pub(crate) async fn decide_one(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Result<Decision, LimiterError> {
        let limits = self.in_force();
        self.decide(&limits, operation, slice::from_ref(transaction))
            .await
    }

    pub(crate) async fn decide_batch(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        let limits = self.in_force();
        self.decide(&limits, operation, transactions).await
    }

    /// Decides a plain charge in memory, by limits that have never been replaced.
    #[inline(always)]
    pub(super) fn try_plain(&self, transaction: &Transaction<'_>) -> Option<Decision> {
        let (limits, memory) = (self.shared.limits.first()?, self.memory()?);
        let spent = self.spend_plain::<Exactly<1>, Decision>(memory, limits, transaction)?;
        let mut decided = Decision::nothing();
        spent.show(&mut decided);
        Some(decided)
    }

    /// Decides transactions without waiting. If the backend has to wait, returns `None` and changes nothing.
    #[inline(always)]
    pub(super) fn try_decide<D: Decisions>(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Option<Result<D, LimiterError>> {
        let limits = self.in_force();
        // Decisions are large, so they are made where they are returned.
        let mut result = Some(Ok(D::nothing()));
        match (&self.shared.backend, &mut result) {
            (BackendDispatch::Memory(memory), Some(Ok(decided))) => {
                let decided =
                    self.decide_in_memory(memory, &limits, operation, transactions, decided);
                if let Err(error) = decided {
                    result = Some(Err(error));
                }
            }
            (backend, _) => {
                result = self.try_decide_in(&**backend, &limits, operation, transactions);
            }
        }
        result
    }

    /// Decides transactions by these limits, even if others are in force by now.
    pub(crate) async fn decide<D: Decisions>(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Result<D, LimiterError> {
        match &self.shared.backend {
            BackendDispatch::Memory(memory) => {
                let mut decided = D::nothing();
                self.decide_in_memory(memory, limits, operation, transactions, &mut decided)?;
                Ok(decided)
            }
            BackendDispatch::Other(backend) => {
                self.decide_in(&**backend, limits, operation, transactions)
                    .await
            }
        }
    }

    /// Decides transactions in memory.
    #[inline(always)]
    fn decide_in_memory<D: Decisions>(
        &self,
        memory: &MemoryBackend,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
        decided: &mut D,
    ) -> Result<(), LimiterError> {
        let len = if D::ARE_SEVERAL {
            transactions.len()
        } else {
            1
        };
        counted!(len, C => {
            if operation == Operation::Spend
                && let Some(spent) = self.spend_plain::<C, D>(memory, limits, transactions)
            {
                spent.show(decided);
                return Ok(());
            }
            self.decide_in_full::<C, D>(memory, limits, operation, transactions, decided)
        })
    }

    /// Decides any transactions in memory, and counts the decisions. These are large, so they are written where they stay.
    #[inline(never)]
    pub(crate) fn decide_in_full<'a, C: Count, D: Decisions>(
        &'a self,
        memory: &MemoryBackend,
        limits: &'a Limits,
        operation: Operation,
        transactions: &(impl Transactions<'a> + ?Sized),
        decided: &mut D,
    ) -> Result<(), LimiterError> {
        self.decide_unless_quiet::<C, D>(memory, limits, operation, transactions, decided, false)
            .map(drop)
    }

    /// Does the same, and returns whether the decisions are written. They are not if all pass and that is all that counts.
    #[inline(always)]
    pub(crate) fn decide_unless_quiet<'a, C: Count, D: Decisions>(
        &'a self,
        memory: &MemoryBackend,
        limits: &'a Limits,
        operation: Operation,
        transactions: &(impl Transactions<'a> + ?Sized),
        decided: &mut D,
        can_be_quiet: bool,
    ) -> Result<bool, LimiterError> {
        let mut claims = Claims::<C>::new(operation, transactions.len());
        claims.look_up(&Lookups::in_memory(limits, operation), transactions)?;
        let recorder = self.recorder(limits, operation);
        if claims.are_needed() {
            let applied = memory.judge(&mut claims.judged, self.now());
            recorder.applied();
            if let Err(error) = claims.check(applied, transactions) {
                return Err(recorder.failed(transactions, error));
            }
        }
        if can_be_quiet && claims.pass() && !recorder.listens() {
            return Ok(false);
        }
        claims.show(decided);
        recorder.record(transactions, decided);
        Ok(true)
    }

    #[inline(never)]
    fn try_decide_in<D: Decisions>(
        &self,
        backend: &dyn Backend,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Option<Result<D, LimiterError>> {
        let mut ids = Any::list(transactions.len(), |_| None);
        let members = Members::of(self.lookups(limits, operation), transactions, &mut ids);
        let members = match members {
            Ok(members) => members,
            Err(error) => return Some(Err(error)),
        };
        let recorder = self.recorder(limits, operation);
        if !members.are_needed() {
            return Some(Ok(members.without_backend(&recorder, transactions)));
        }
        let batch = members.batch(self.now());
        let applied = backend.try_apply(&batch)?;
        Some(members.finish(&recorder, transactions, &batch, applied))
    }

    async fn decide_in<D: Decisions>(
        &self,
        backend: &dyn Backend,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Result<D, LimiterError> {
        let mut ids = Any::list(transactions.len(), |_| None);
        let members = Members::of(self.lookups(limits, operation), transactions, &mut ids)?;
        let recorder = self.recorder(limits, operation);
        if !members.are_needed() {
            return Ok(members.without_backend(&recorder, transactions));
        }
        let batch = members.batch(self.now());
        // A backend that does not have to wait saves the boxed future.
        let applied = match ask_boxed(backend, &batch) {
            MaybeReady::Waits(applying) => applying.await,
            MaybeReady::Ready(applied) => applied,
        };
        members.finish(&recorder, transactions, &batch, applied)
    }

    /// Returns the backend in memory, if it is the one that decides.
    #[inline(always)]
    pub(crate) fn memory(&self) -> Option<&MemoryBackend> {
        match &self.shared.backend {
            BackendDispatch::Memory(memory) => Some(memory),
            BackendDispatch::Other(_) => None,
        }
    }

    #[inline(always)]
    pub(super) fn lookups<'a>(&'a self, limits: &'a Limits, operation: Operation) -> Lookups<'a> {
        Lookups {
            limits,
            store: self.shared.backend.store(),
            operation,
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
