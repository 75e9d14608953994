//! From transactions to decisions: look them up, let the backend decide, and finish.

use std::slice;

use smallvec::SmallVec;

use super::{
    Limiter,
    backend_dispatch::BackendDispatch,
    limiter_error::LimiterError,
    prepare::{Looked, Lookups, WithoutBucket, duplicate, duplicate_bucket},
    recorder::DecisionRecorder,
};
use crate::{
    backend::{Backend, BackendError, MaybeReady, MemoryBackend, ask_boxed},
    clock::Timestamp,
    decision::{BatchDecision, Circumstances, Decision, Decisions, Judgement, Outcome, Source},
    few::{Any, Count, Exactly, counted},
    id::Id,
    limit::Limits,
    transaction::{Batch, Member, Operation, Transaction},
};

impl Limiter {
    #[inline(never)]
    pub(crate) fn try_decide_one(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Option<Result<Decision, LimiterError>> {
        let limits = self.in_force();
        self.try_decide::<Exactly<1>, _>(&limits, operation, slice::from_ref(transaction))
    }

    pub(crate) async fn decide_one(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Result<Decision, LimiterError> {
        let limits = self.in_force();
        let transactions = slice::from_ref(transaction);
        self.decide::<Exactly<1>, _>(&limits, operation, transactions)
            .await
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

    #[inline]
    pub(super) fn try_decide_batch(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Option<Result<BatchDecision, LimiterError>> {
        let limits = self.in_force();
        let BackendDispatch::Memory(memory) = &self.shared.backend else {
            return self.try_decide::<Any, _>(&limits, operation, transactions);
        };
        self.decide_batch_in_memory(memory, &limits, operation, transactions)
    }

    /// Decides a batch in memory. The result is large, so it is made where it is returned.
    #[inline]
    fn decide_batch_in_memory(
        &self,
        memory: &MemoryBackend,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Option<Result<BatchDecision, LimiterError>> {
        let mut result = Some(Ok(BatchDecision::nothing()));
        if let Some(Ok(decided)) = &mut result
            && let Err(error) = counted!(transactions.len(), C => {
                self.decide_in_memory::<C, _>(memory, limits, operation, transactions, decided)
            })
        {
            result = Some(Err(error));
        }
        result
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
        match &self.shared.backend {
            BackendDispatch::Memory(memory) => {
                let mut decided = BatchDecision::nothing();
                let spent = &mut decided;
                counted!(transactions.len(), C => {
                    self.decide_in_memory::<C, _>(memory, limits, operation, transactions, spent)
                })?;
                Ok(decided)
            }
            BackendDispatch::Other(_) => {
                self.decide::<Any, _>(limits, operation, transactions).await
            }
        }
    }

    /// Decides transactions by these limits, without waiting. If the backend has to wait, returns `None` and changes
    /// nothing.
    #[inline(always)]
    fn try_decide<C: Count, D: Decisions>(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Option<Result<D, LimiterError>> {
        match &self.shared.backend {
            BackendDispatch::Memory(memory) => {
                let mut decided = D::nothing();
                let spent = &mut decided;
                let result =
                    self.decide_in_memory::<C, D>(memory, limits, operation, transactions, spent);
                Some(result.map(|()| decided))
            }
            BackendDispatch::Other(backend) => {
                self.try_decide_in::<D>(&**backend, limits, operation, transactions)
            }
        }
    }

    /// Decides transactions by these limits, and waits for the backend if necessary.
    async fn decide<C: Count, D: Decisions>(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Result<D, LimiterError> {
        let mut decided = D::nothing();
        match &self.shared.backend {
            BackendDispatch::Memory(memory) => {
                self.decide_in_memory::<C, D>(memory, limits, operation, transactions, &mut decided)
            }
            BackendDispatch::Other(backend) => {
                let backend = &**backend;
                self.decide_in(backend, limits, operation, transactions, &mut decided)
                    .await
            }
        }?;
        Ok(decided)
    }

    /// Decides transactions in memory. Decisions are large, so they are written where they stay.
    #[inline(always)]
    fn decide_in_memory<C: Count, D: Decisions>(
        &self,
        memory: &MemoryBackend,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
        decided: &mut D,
    ) -> Result<(), LimiterError> {
        if operation == Operation::Spend
            && let Some(spent) = self.spend_plain::<C, D>(memory, limits, transactions)
        {
            spent.show(decided);
            return Ok(());
        }
        self.decide_in_full::<C, D>(memory, limits, operation, transactions, decided)
    }

    /// Decides any transactions in memory.
    #[inline(never)]
    pub(crate) fn decide_in_full<C: Count, D: Decisions>(
        &self,
        memory: &MemoryBackend,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
        decided: &mut D,
    ) -> Result<(), LimiterError> {
        let recorder = self.recorder(limits, operation);
        let len = transactions.len();
        let mut ids = C::fill(len, || None);
        let mut looked = LookedUp::<C>::new(operation, len);
        looked.look_up(
            Lookups::in_memory(limits, operation),
            transactions,
            ids.as_mut(),
        )?;
        if !looked.is_needed() {
            looked.decide_without(decided);
            recorder.record(transactions, decided);
            return Ok(());
        }
        let mut judged = Judgement::<C>::new(operation, len);
        let applied = memory.judge(&mut judged, self.now(), len, |place| looked.member(place));
        recorder.applied();
        let finished = match applied {
            Ok(()) => looked.finish(&judged, decided),
            Err(error) => Err(BackendError::from(error).into()),
        };
        match finished {
            Ok(()) => recorder.record(transactions, decided),
            Err(error) => return Err(recorder.failed(transactions, error)),
        }
        Ok(())
    }

    #[inline(never)]
    fn try_decide_in<D: Decisions>(
        &self,
        backend: &dyn Backend,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Option<Result<D, LimiterError>> {
        let recorder = self.recorder(limits, operation);
        let mut ids = Any::fill(transactions.len(), || None);
        let mut looked = LookedUp::<Any>::new(operation, transactions.len());
        if let Err(error) =
            looked.look_up(self.lookups(limits, operation), transactions, ids.as_mut())
        {
            return Some(Err(error));
        }
        let mut decided = D::nothing();
        if !looked.is_needed() {
            looked.decide_without(&mut decided);
            recorder.record(transactions, &decided);
            return Some(Ok(decided));
        }
        let members = looked.members();
        let batch = Batch::new(operation, &members).at(self.now());
        let applied = backend.try_apply(&batch)?;
        recorder.applied();
        let finished =
            looked.finish_applied(&recorder, transactions, &batch, applied, &mut decided);
        Some(finished.map(|()| decided))
    }

    async fn decide_in<D: Decisions>(
        &self,
        backend: &dyn Backend,
        limits: &Limits,
        operation: Operation,
        transactions: &[Transaction<'_>],
        decided: &mut D,
    ) -> Result<(), LimiterError> {
        let recorder = self.recorder(limits, operation);
        let mut ids = Any::fill(transactions.len(), || None);
        let mut looked = LookedUp::<Any>::new(operation, transactions.len());
        looked.look_up(self.lookups(limits, operation), transactions, ids.as_mut())?;
        if !looked.is_needed() {
            looked.decide_without(decided);
            recorder.record(transactions, decided);
            return Ok(());
        }
        let members = looked.members();
        let batch = Batch::new(operation, &members).at(self.now());
        // A backend that does not have to wait saves the boxed future.
        let applied = match ask_boxed(backend, &batch) {
            MaybeReady::Waits(applying) => applying.await,
            MaybeReady::Ready(applied) => applied,
        };
        recorder.applied();
        looked.finish_applied(&recorder, transactions, &batch, applied, decided)
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

/// Transactions that were looked up, in their order.
struct LookedUp<'a, C: Count> {
    operation: Operation,
    transactions: C::Of<Looked<'a>>,
    has_members: bool,
    /// Whether a transaction that is decided without the backend denies the batch.
    is_refused: bool,
}

impl<'a, C: Count> LookedUp<'a, C> {
    #[inline(always)]
    fn new(operation: Operation, len: usize) -> Self {
        Self {
            operation,
            transactions: C::fill(len, || Looked::Without(WithoutBucket::Off)),
            has_members: false,
            is_refused: false,
        }
    }

    #[inline(always)]
    fn look_up(
        &mut self,
        lookups: Lookups<'a>,
        transactions: &'a [Transaction<'a>],
        ids: &'a mut [Option<Id>],
    ) -> Result<(), LimiterError> {
        let places = self.transactions.as_mut().iter_mut();
        for ((transaction, room), looked) in transactions.iter().zip(ids).zip(places) {
            if let Err(error) = lookups.look_up(transaction, room, looked) {
                return Err(*error);
            }
            match looked {
                Looked::Member(_) => self.has_members = true,
                Looked::Without(other) => self.is_refused |= other.refuses(self.operation),
            }
        }
        match duplicate(self.transactions.as_ref()) {
            None => Ok(()),
            Some(key) => Err(duplicate_bucket(key, transactions)),
        }
    }

    /// Returns whether a backend has to decide.
    #[inline(always)]
    fn is_needed(&self) -> bool {
        self.has_members && !self.is_refused
    }

    #[inline(always)]
    fn member(&self, place: usize) -> Option<&Member<'a>> {
        self.transactions.as_ref()[place].member()
    }

    /// Returns the members of the batch.
    fn members(&self) -> SmallVec<[Member<'a>; 4]> {
        let members = self.transactions.as_ref().iter().filter_map(Looked::member);
        members.copied().collect()
    }

    /// Writes the decisions on a batch that needs no backend.
    #[cold]
    fn decide_without<D: Decisions>(&self, decided: &mut D) {
        for looked in self.transactions.as_ref() {
            *decided.next() = match looked {
                Looked::Member(_) => Decision::NOT_LIMITED,
                Looked::Without(other) => other.decision(self.operation),
            };
        }
    }

    /// Turns the answers of memory into decisions.
    #[inline(always)]
    fn finish<D: Decisions>(
        &self,
        judged: &Judgement<C>,
        decided: &mut D,
    ) -> Result<(), LimiterError> {
        if let Some(member) = judged.no_room().and_then(|place| self.member(place)) {
            return Err(LimiterError::no_room(member));
        }
        let answers = self.transactions.as_ref().iter().zip(judged.answers());
        for (looked, answer) in answers {
            match looked {
                Looked::Member(member) => {
                    let circumstances = Circumstances {
                        action: judged.action(member),
                        now: judged.now(),
                        passes: judged.passes(),
                        source: Source::Store,
                    };
                    decided
                        .next()
                        .show(member.algorithm, member, answer, circumstances);
                }
                Looked::Without(other) => *decided.next() = other.decision(self.operation),
            }
        }
        Ok(())
    }

    /// Turns a backend's outcome into decisions. If the backend has broken its contract, this is an error, and the request
    /// is not allowed.
    fn finish_applied<D: Decisions>(
        &self,
        recorder: &DecisionRecorder<'_>,
        transactions: &[Transaction<'_>],
        batch: &Batch<'_>,
        applied: Result<Outcome, BackendError>,
        decided: &mut D,
    ) -> Result<(), LimiterError> {
        let outcome = match applied {
            Ok(outcome) => outcome,
            Err(error) => return Err(recorder.failed(transactions, error.into())),
        };
        if !outcome.answers_all(batch) || outcome.no_room().is_some() {
            return Err(recorder.failed(transactions, broken(batch, &outcome)));
        }
        let passes = outcome.passes(batch);
        let mut members = 0..batch.members.len();
        for looked in self.transactions.as_ref() {
            let decision = decided.next();
            let is_answered = match looked {
                Looked::Without(other) => {
                    *decision = other.decision(self.operation);
                    true
                }
                Looked::Member(_) => members
                    .next()
                    .is_some_and(|member| outcome.decide_on(batch, member, passes, decision)),
            };
            if !is_answered {
                return Err(recorder.failed(transactions, of_another_batch()));
            }
        }
        recorder.record(transactions, decided);
        Ok(())
    }
}

#[cold]
fn broken(batch: &Batch<'_>, outcome: &Outcome) -> LimiterError {
    match outcome.no_room() {
        Some(member) if outcome.answers_all(batch) => LimiterError::no_room(&batch.members[member]),
        _ => wrong_number(batch, outcome).into(),
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
