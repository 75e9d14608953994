//! Waiting in line, for a caller without HTTP.

use super::{Limiter, LimiterError, StartTime};
use crate::{
    decision::Decision,
    task::{detach, detached},
    transaction::{LimitRef, Mode, Operation, Receipt, Transaction},
};

impl Limiter {
    /// Charges the transaction and, if it is admitted to the line of a limit with [`max_wait`](crate::Limit::max_wait),
    /// waits until it is its turn. On other limits it does what [`spend`](Self::spend) does.
    ///
    /// A denial is returned immediately: the line is full, or the limit has none. Always look at
    /// [`Decision::allowed`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter, Limits, MemoryBackend};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let line = Limit::per_second(1000).burst(10).max_wait(Duration::from_secs(2));
    /// let limits = Limits::builder().limit("webhooks", line).build()?;
    /// let webhooks = Limiter::new(limits, MemoryBackend::new()).limit("webhooks")?;
    ///
    /// for _ in 0..15 {
    ///     // The first ten start at once, and the others 1 ms apart.
    ///     if webhooks.acquire("example.com").await?.allowed() {
    ///         // Send it.
    ///     }
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cancellation safety
    ///
    /// It is safe to drop the future, for instance in `tokio::select!` or by a timeout. If it is dropped before it has
    /// returned, it refunds its charge exactly once, whether the store has answered yet or not: the refund is made in a
    /// task that outlives the future. The caller that is last in line gives its slot back. A slot in the middle of the
    /// line is lost, and those behind it keep their instants.
    ///
    /// # Time
    ///
    /// The store decides when the turn of each caller comes. The wait itself is measured by tokio's clock from the
    /// store's answer, so a caller never starts early, and starts late by the time that the answer takes. A thread of
    /// this crate ends waits more exactly than tokio's timer: see [the guide](crate::guide::waiting).
    ///
    /// A test with a paused tokio clock gives the limiter a [`TokioClock`](crate::clock::TokioClock), because the
    /// limiter's clock must move during a wait. The [recipe](crate::guide::recipes::testing#waiting) has an example.
    ///
    /// # Errors
    ///
    /// As [`spend`](Self::spend).
    ///
    /// # Panics
    ///
    /// If it has to wait outside of a tokio runtime, or in one without a timer. In a test that pauses tokio's clock, if
    /// the limiter's clock stands still while the caller waits.
    pub async fn acquire(&self, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        let place = || PlaceInLine::new(self.clone(), transaction);
        let place = match self.try_spend(transaction) {
            Some(Ok(decision)) if decision.delay().is_zero() => return Ok(decision),
            Some(decided) => place().taken(decided?),
            // If the caller leaves, the task continues, and then drops the place, which refunds the charge.
            None => detached(place().take()).await?,
        };
        if let Some(turn) = place.turn.clone() {
            turn.wait().await;
        }
        Ok(place.start())
    }
}

/// A place in line. It refunds its charge when it is dropped.
struct PlaceInLine {
    limiter: Limiter,
    limit: Box<str>,
    id: Box<str>,
    /// The transaction without its limit and id.
    asked: Transaction<'static>,
    decision: Decision,
    receipt: Option<Receipt>,
    /// When the caller starts, if it has to wait.
    turn: Option<StartTime>,
}

impl PlaceInLine {
    fn new(limiter: Limiter, transaction: &Transaction<'_>) -> Self {
        Self {
            limiter,
            limit: transaction.limit.as_str().into(),
            id: transaction.id.into(),
            asked: transaction.of(LimitRef::from(""), ""),
            decision: Decision::NOT_LIMITED,
            receipt: None,
            turn: None,
        }
    }

    fn transaction(&self) -> Transaction<'_> {
        self.asked.of(LimitRef::from(&*self.limit), &self.id)
    }

    async fn take(self) -> Result<Self, LimiterError> {
        let decision = self.limiter.spend(&self.transaction()).await?;
        Ok(self.taken(decision))
    }

    fn taken(mut self, decision: Decision) -> Self {
        let delay = decision.delay();
        self.turn = (!delay.is_zero()).then(|| StartTime::after(&self.limiter, delay));
        self.receipt = decision.receipt();
        self.decision = decision;
        self
    }

    /// Ends the wait: it is the caller's turn, so the charge stays.
    fn start(mut self) -> Decision {
        self.receipt = None;
        std::mem::replace(&mut self.decision, Decision::NOT_LIMITED)
    }
}

impl Drop for PlaceInLine {
    fn drop(&mut self) {
        let Some(receipt) = self.receipt.take() else {
            return;
        };
        let refund = self.transaction().mode(Mode::Debit).correction();
        let refund = refund.of_receipt(&receipt);
        match self.limiter.try_decide_one(Operation::Refund, &refund) {
            Some(refunded) => log(refunded),
            None => {
                let place = Self::new(self.limiter.clone(), &refund);
                detach(Box::pin(async move {
                    let refund = place.transaction().of_receipt(&receipt);
                    log(place.limiter.decide_one(Operation::Refund, &refund).await);
                }));
            }
        }
    }
}

fn log(refunded: Result<Decision, LimiterError>) {
    if let Err(error) = refunded {
        tracing::debug!(%error, "a caller has left a line, and its charge could not be refunded");
    }
}
