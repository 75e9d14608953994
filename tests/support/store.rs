//! A store that fails on command, and counts its calls.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Semaphore, task::yield_now, time::sleep};
use tollgate::{
    MemoryBackend,
    backend::{
        Backend, BackendError, Stats, async_trait,
        custom::{Answer, Batch, Member, Operation, Outcome},
    },
    clock::{Clock, TokioClock},
    decision::Source,
    limit::LimitError,
};

/// The reaction of a store to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Fate {
    #[default]
    Works,
    /// It does nothing, and the error says so.
    Fails,
    /// It does nothing, and the error leaves that open.
    NoReply,
    /// It never answers.
    Hangs,
    /// It decides, but its answer is lost.
    AppliesThenErrors,
    /// It decides, and answers after this time.
    Takes(Duration),
    /// It decides after this time.
    Decides(Duration),
    /// It fails on every fourth call.
    FailsEveryFourth,
    /// A value of the bucket is broken.
    CorruptBucket,
    /// It answers about no bucket at all.
    NoAnswers,
}

/// A store for which callers have to wait, by tokio's clock. Clones are the same store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store(Arc<StoreState>);

#[derive(Debug, Default)]
struct StoreState {
    memory: Arc<MemoryBackend>,
    clock: TokioClock,
    /// The fate of all calls, or of those of one operation.
    fault: Mutex<(Fate, Option<Operation>)>,
    calls: AtomicUsize,
    operations: Mutex<Vec<Operation>>,
    /// The limits that it was asked to admit.
    admissions: AtomicUsize,
    form: Form,
}

/// The kinds of stores, which differ while nothing fails.
#[derive(Debug, Default)]
enum Form {
    #[default]
    Plain,
    /// It lets other tasks run so often before and after a decision.
    Yields(usize),
    /// It never lets its callers wait, not even when it fails.
    AtOnce,
    /// It has a circuit breaker of its own, which is closed.
    WithBreaker,
    /// It decides and answers only as its gates let it.
    Gated(Gates),
}

impl Store {
    pub(crate) fn new(fate: Fate) -> Self {
        let store = Self::default();
        store.set_fate(fate);
        store
    }

    pub(crate) fn yields(turns: usize) -> Self {
        Self::of(Form::Yields(turns))
    }

    pub(crate) fn at_once() -> Self {
        Self::of(Form::AtOnce)
    }

    pub(crate) fn with_breaker() -> Self {
        Self::of(Form::WithBreaker)
    }

    pub(crate) fn gated() -> Self {
        Self::of(Form::Gated(Gates {
            decide: Semaphore::new(0),
            answer: Semaphore::new(0),
        }))
    }

    fn of(form: Form) -> Self {
        Self(Arc::new(StoreState {
            form,
            ..StoreState::default()
        }))
    }

    pub(crate) fn gates(&self) -> &Gates {
        match &self.0.form {
            Form::Gated(gates) => gates,
            form => panic!("{form:?} has no gates"),
        }
    }

    /// Sets what happens to calls from now on.
    pub(crate) fn set_fate(&self, fate: Fate) {
        *self.0.fault.lock().unwrap() = (fate, None);
    }

    /// Sets what happens to the calls of one operation from now on. All others work.
    pub(crate) fn set_fate_of(&self, operation: Operation, fate: Fate) {
        *self.0.fault.lock().unwrap() = (fate, Some(operation));
    }

    /// The buckets of the store, without its faults and its clock.
    pub(crate) fn memory(&self) -> Arc<MemoryBackend> {
        Arc::clone(&self.0.memory)
    }

    /// The number of calls since this was last asked.
    pub(crate) fn calls(&self) -> usize {
        self.0.calls.swap(0, Ordering::SeqCst)
    }

    /// The number of calls of an operation.
    pub(crate) fn count(&self, operation: Operation) -> usize {
        let operations = self.0.operations.lock().unwrap();
        operations.iter().filter(|one| **one == operation).count()
    }

    /// The number of limits that it was asked to admit since this was last asked.
    pub(crate) fn admissions(&self) -> usize {
        self.0.admissions.swap(0, Ordering::SeqCst)
    }

    fn fate_of(&self, operation: Operation) -> Fate {
        let (fate, only) = *self.0.fault.lock().unwrap();
        match only {
            Some(only) if only != operation => Fate::Works,
            _ => fate,
        }
    }

    /// Lets other tasks run, or waits at a gate.
    async fn pause(&self, gate: fn(&Gates) -> &Semaphore) {
        match &self.0.form {
            Form::Yields(turns) => {
                for _ in 0..*turns {
                    yield_now().await;
                }
            }
            Form::Gated(gates) => gate(gates).acquire().await.unwrap().forget(),
            Form::Plain | Form::AtOnce | Form::WithBreaker => {}
        }
    }

    async fn decide(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let now = batch.now.unwrap_or_else(|| self.0.clock.now());
        self.0.memory.apply(&batch.at(Some(now))).await
    }

    /// Decides, or not, and answers as its fate is.
    async fn react(&self, batch: &Batch<'_>, calls: usize) -> Result<Outcome, BackendError> {
        match self.fate_of(batch.operation) {
            Fate::Fails => return Err(BackendError::not_done("lost")),
            Fate::NoReply => return Err(BackendError::unavailable("no answer")),
            Fate::Hangs => pending().await,
            Fate::AppliesThenErrors => {
                self.decide(batch).await?;
                yield_now().await;
                return Err(BackendError::unavailable("forgotten"));
            }
            Fate::Takes(time) => {
                let decided = self.decide(batch).await;
                sleep(time).await;
                return decided;
            }
            Fate::Decides(time) => sleep(time).await,
            Fate::FailsEveryFourth if calls.is_multiple_of(4) => {
                return Err(BackendError::unavailable("late"));
            }
            Fate::CorruptBucket => {
                return Err(BackendError::Undecidable("WRONGTYPE of 7:client".into()));
            }
            Fate::NoAnswers => {
                return self.decide(&Batch::new(batch.operation, &[])).await;
            }
            Fate::Works | Fate::FailsEveryFourth => {}
        }
        self.decide(batch).await
    }
}

#[async_trait]
impl Backend for Store {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let calls = 1 + self.0.calls.fetch_add(1, Ordering::SeqCst);
        self.pause(|gates| &gates.decide).await;
        self.0.operations.lock().unwrap().push(batch.operation);
        let answer = self.react(batch, calls).await;
        self.pause(|gates| &gates.answer).await;
        answer
    }

    fn try_apply(
        &self,
        batch: &Batch<'_>,
        answers: &mut [Answer],
    ) -> Option<Result<Source, BackendError>> {
        match (&self.0.form, self.fate_of(batch.operation)) {
            (Form::AtOnce, Fate::Works) => self.0.memory.try_apply(batch, answers),
            (Form::AtOnce, _) => Some(Err(BackendError::not_done("lost"))),
            _ => None,
        }
    }

    fn admits(&self, member: &Member<'_>) -> Result<(), LimitError> {
        self.0.admissions.fetch_add(1, Ordering::SeqCst);
        self.0.memory.admits(member)
    }

    fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        if let Form::WithBreaker = self.0.form {
            stats.is_open = Some(false);
        }
        stats
    }
}

/// The gates before the decision of a store and before its answer. Each permit lets one call through.
#[derive(Debug)]
pub(crate) struct Gates {
    pub(crate) decide: Semaphore,
    pub(crate) answer: Semaphore,
}

impl Gates {
    /// Lets everything pass from now on.
    pub(crate) fn open(&self) {
        const ENOUGH: usize = Semaphore::MAX_PERMITS / 8;
        self.decide.add_permits(ENOUGH);
        self.answer.add_permits(ENOUGH);
    }
}
