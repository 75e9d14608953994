//! Stores that are reached and left by ways of any length, and wrappers with a fault each, which the check has to find.

use std::sync::{Arc, Mutex};

use tollgate::{
    backend::{
        Backend, BackendError, Stats, async_trait,
        custom::{Batch, Operation, Outcome},
    },
    clock::Timestamp,
};

use super::{clients::START, random::Random, stack::Stack};

/// What is lost on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Losses {
    Nothing,
    /// Some calls, before or after they are decided.
    Some,
    /// All calls, before they are decided, which is known.
    All,
}

#[derive(Debug)]
pub(crate) struct Lossy {
    pub(crate) store: Arc<dyn Backend>,
    pub(crate) random: Random,
    pub(crate) losses: Losses,
}

#[async_trait]
impl Backend for Lossy {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let fate = match self.losses {
            Losses::Nothing => None,
            Losses::Some => Some(self.random.below(12)),
            Losses::All => Some(0),
        };
        self.random.pause().await;
        match fate {
            Some(0) => return Err(BackendError::not_done("not reached")),
            Some(1) => return Err(BackendError::unavailable("lost")),
            _ => {}
        }
        // Its own clock stands still.
        let now = batch.now.unwrap_or(Timestamp::from_micros(START));
        let decided = self.store.apply(&batch.at(Some(now))).await;
        self.random.pause().await;
        match fate {
            Some(2) => Err(BackendError::unavailable("lost")),
            _ => decided,
        }
    }

    /// A policy does without a breaker of its own, and asks the store again however many calls were lost.
    fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        stats.is_open = Some(false);
        stats
    }
}

/// Refunds what was perhaps not charged.
#[derive(Debug)]
pub(crate) struct RefundsTheUnknown(pub(crate) Arc<dyn Backend>);

#[async_trait]
impl Backend for RefundsTheUnknown {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let decided = self.0.apply(batch).await;
        if decided.is_err() && batch.operation == Operation::Spend {
            let refund = Batch::new(Operation::Refund, batch.members).at(batch.now);
            let _ = self.0.apply(&refund).await;
        }
        decided
    }
}

/// Gives two calls that are in flight at the same time each other's answers.
#[derive(Debug)]
pub(crate) struct SwapsAnswers {
    inner: Arc<dyn Backend>,
    waiting: Mutex<Option<(String, Outcome)>>,
}

impl SwapsAnswers {
    pub(crate) fn new(inner: Arc<dyn Backend>) -> Self {
        Self {
            inner,
            waiting: Mutex::default(),
        }
    }
}

#[async_trait]
impl Backend for SwapsAnswers {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let own = self.inner.apply(batch).await?;
        let [member] = batch.members else {
            return Ok(own);
        };
        if batch.operation != Operation::Spend {
            return Ok(own);
        }
        let limit = member.key.limit.to_string();
        if let Some(other) = self.leave(&limit, &own) {
            return Ok(other);
        }
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        let left = self
            .waiting
            .lock()
            .unwrap()
            .take_if(|(other, _)| *other == limit);
        Ok(left.map_or(own, |(_, answer)| answer))
    }
}

impl SwapsAnswers {
    /// Leaves an answer for the call that waits for one of the same limit, and takes that call's.
    fn leave(&self, limit: &str, own: &Outcome) -> Option<Outcome> {
        let mut waiting = self.waiting.lock().unwrap();
        match &mut *waiting {
            Some((other, answer)) if other == limit => Some(std::mem::replace(answer, own.clone())),
            Some(_) => None,
            empty => {
                *empty = Some((limit.to_owned(), own.clone()));
                None
            }
        }
    }
}

/// A process that forgets what it has decided without the store whenever something is refunded.
#[derive(Debug)]
pub(crate) struct RenewsBudget {
    store: Arc<dyn Backend>,
    process: Mutex<Arc<dyn Backend>>,
}

impl RenewsBudget {
    pub(crate) fn new(store: Arc<dyn Backend>) -> Self {
        Self {
            process: Mutex::new(Stack::Deciding.around(Arc::clone(&store), 1)),
            store,
        }
    }
}

#[async_trait]
impl Backend for RenewsBudget {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let process = Arc::clone(&self.process.lock().unwrap());
        let decided = process.apply(batch).await;
        if batch.operation == Operation::Refund {
            *self.process.lock().unwrap() = Stack::Deciding.around(Arc::clone(&self.store), 1);
        }
        decided
    }
}

/// Gives back twice.
#[derive(Debug)]
pub(crate) struct RefundsTwice(pub(crate) Arc<dyn Backend>);

#[async_trait]
impl Backend for RefundsTwice {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        if batch.operation == Operation::Refund {
            let _ = self.0.apply(batch).await;
        }
        self.0.apply(batch).await
    }
}
