//! Backends with a fault each, which a check of histories has to find.

use std::sync::Mutex;

use tollgate::{
    MemoryBackend,
    backend::{Backend, BackendError, LeaseTerms, NotAdmitted, async_trait},
    decision::Outcome,
    transaction::{Algorithm, Batch, LeaseShare, Operation},
};

/// Refunds what was perhaps not charged.
#[derive(Debug)]
pub(super) struct RefundsTheUnknown<B>(pub(super) B);

#[async_trait]
impl<B: Backend> Backend for RefundsTheUnknown<B> {
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
pub(super) struct SwapsAnswers<B> {
    inner: B,
    waiting: Mutex<Option<(String, Outcome)>>,
}

impl<B> SwapsAnswers<B> {
    pub(super) fn new(inner: B) -> Self {
        Self {
            inner,
            waiting: Mutex::default(),
        }
    }
}

#[async_trait]
impl<B: Backend> Backend for SwapsAnswers<B> {
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

impl<B> SwapsAnswers<B> {
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

/// A budget that a refund renews.
#[derive(Debug, Default)]
pub(super) struct RenewsBudget(Mutex<MemoryBackend>);

#[async_trait]
impl Backend for RenewsBudget {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut memory = self.0.lock().unwrap();
        let decided = memory.try_apply(batch);
        if batch.operation == Operation::Refund {
            *memory = MemoryBackend::new();
        }
        decided.unwrap()
    }
}

/// Gives back twice.
#[derive(Debug)]
pub(super) struct RefundsTwice<B>(pub(super) B);

#[async_trait]
impl<B: Backend> Backend for RefundsTwice<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        if batch.operation == Operation::Refund {
            let _ = self.0.apply(batch).await;
        }
        self.0.apply(batch).await
    }

    fn lease(
        &self,
        algorithm: &Algorithm,
        share: LeaseShare,
    ) -> Result<Option<LeaseTerms>, NotAdmitted> {
        self.0.lease(algorithm, share)
    }
}
