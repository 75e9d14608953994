//! From transactions to decisions: look them up, let the backend decide, and finish.

use std::slice;

use super::{
    Limiter,
    backend_dispatch::BackendDispatch,
    claims::{LookedUp, Undecided},
    limiter_error::LimiterError,
    members::Members,
    prepare::Lookups,
    recorder::DecisionRecorder,
};
use crate::{
    backend::{Backend, MaybeReady, MemoryBackend, ask_boxed},
    clock::Timestamp,
    decision::{BatchDecision, Decision, Judgement, Returned},
    few::{Any, Count, counted},
    limit::Limits,
    metrics::Stopwatch,
    transaction::{Claim, Operation, RowCharge, Transaction},
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

    /// Decides transactions without waiting. If the backend has to wait, returns `None` and changes nothing.
    #[inline(always)]
    pub(super) fn try_decide<D: Returned>(
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
    pub(crate) async fn decide<D: Returned>(
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
    fn decide_in_memory<D: Returned>(
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
            if limits.has_rows() {
                let decide = Self::decide_as::<RowCharge<'_>, C, D>;
                match decide(self, memory, limits, operation, transactions, decided) {
                    Err(Undecided::NeedsFullClaim) => {}
                    decided => return decided.map_err(|undecided| *undecided.into_error()),
                }
            }
            self.decide_in_full::<C, D>(memory, limits, operation, transactions, decided)
        })
    }

    #[inline(never)]
    fn decide_in_full<C: Count, D: Returned>(
        &self,
        memory: &MemoryBackend,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
        decided: &mut D,
    ) -> Result<(), LimiterError> {
        let decide = Self::decide_as::<Claim<'_>, C, D>;
        let decided = decide(self, memory, limits, operation, transactions, decided);
        decided.map_err(|undecided| *undecided.into_error())
    }

    /// Decides transactions in memory, whose claims have this size, and records the decisions. These are large, so they are
    /// written where they stay.
    #[inline(always)]
    fn decide_as<'a, K: LookedUp<'a>, C: Count, D: Returned>(
        &'a self,
        memory: &MemoryBackend,
        limits: &'a Limits,
        operation: Operation,
        transactions: &[Transaction<'a>],
        decided: &mut D,
    ) -> Result<(), Undecided> {
        let mut claims = Judgement::<K, C>::new(operation, transactions.len());
        claims.decide(self, memory, limits, transactions, true)?;
        claims.show(decided);
        let recorder = self.recorder(limits, operation);
        recorder.record(transactions, decided);
        Ok(())
    }

    #[inline(never)]
    fn try_decide_in<D: Returned>(
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
            return Some(Ok(members.without_backend(recorder, transactions)));
        }
        let batch = members.batch(self.now());
        let since = Stopwatch::start();
        let applied = backend.try_apply(&batch)?;
        recorder.applied(since);
        Some(members.finish(recorder, transactions, &batch, applied))
    }

    async fn decide_in<D: Returned>(
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
            return Ok(members.without_backend(recorder, transactions));
        }
        let batch = members.batch(self.now());
        let since = Stopwatch::start();
        // A backend that does not have to wait saves the boxed future.
        let applied = match ask_boxed(backend, &batch) {
            MaybeReady::Waits(applying) => applying.await,
            MaybeReady::Ready(applied) => applied,
        };
        recorder.applied(since);
        members.finish(recorder, transactions, &batch, applied)
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
            is_shown: true,
        }
    }

    #[inline(always)]
    pub(crate) fn recorder<'a>(
        &'a self,
        limits: &'a Limits,
        operation: Operation,
    ) -> DecisionRecorder<'a> {
        DecisionRecorder::new(&self.shared.durations, limits, operation)
    }

    pub(super) fn now(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
    }
}
