use std::{fmt, slice, sync::Arc};

use super::{Limiter, LimiterError, Transaction, permits::UnansweredPermits};
use crate::{
    decision::Decision,
    limiter::correction::PendingRefund,
    task::runtime_with_timer,
    transaction::{Operation, Receipt},
};

/// A handle on one limit of a [`Limiter`]. Created by [`Limiter::limit`].
///
/// A handle is cheap to clone, and stays correct across reloads. If a reload removes its name, its calls return
/// [`UnknownLimit`](LimiterError::UnknownLimit); a handle does not prevent such a reload. If the limit has no values, everything is
/// allowed.
///
/// ```
/// use tollgate::{Limit, Limiter, Limits, MemoryBackend};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limits = Limits::builder().limit("orders", Limit::per_hour(100).burst(10)).build()?;
/// let limiter = Limiter::new(limits, MemoryBackend::new());
///
/// let orders = limiter.limit("orders")?;
/// assert!(orders.spend("alice").await?.allowed());
/// assert_eq!(orders.cost(5).check("alice").await?.remaining(), Some(4));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a handle does nothing by itself"]
pub struct LimitHandle {
    limiter: Limiter,
    name: Arc<str>,
    cost: u32,
}

impl Limiter {
    /// Returns a handle on a limit, for callers that use it often, and want to know at startup that it exists.
    ///
    /// # Errors
    ///
    /// If no limit has this name.
    pub fn limit(&self, name: &str) -> Result<LimitHandle, LimiterError> {
        let limits = self.in_force();
        match limits.get(name) {
            Some(_) => Ok(LimitHandle {
                limiter: self.clone(),
                name: name.into(),
                cost: 1,
            }),
            None => Err(LimiterError::unknown_limit(name, &limits)),
        }
    }
}

impl LimitHandle {
    /// The limit's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limiter that decides.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// The same limit at another cost, in tokens. See [`Transaction::cost`].
    pub fn cost(&self, cost: u32) -> Self {
        Self {
            cost,
            ..self.clone()
        }
    }

    /// A transaction of the client with this id, for a batch.
    #[must_use]
    #[inline]
    pub fn transaction<'a>(&'a self, id: &'a str) -> Transaction<'a> {
        Transaction::new(&self.name, id).cost(self.cost)
    }

    /// Charges the client if the cost fits.
    ///
    /// # Errors
    ///
    /// As [`Limiter::spend`].
    pub async fn spend(&self, id: &str) -> Result<Decision, LimiterError> {
        self.limiter().spend(&self.transaction(id)).await
    }

    /// Returns what [`spend`](Self::spend) would return, without charging.
    ///
    /// # Errors
    ///
    /// As [`Limiter::check`].
    pub async fn check(&self, id: &str) -> Result<Decision, LimiterError> {
        self.limiter().check(&self.transaction(id)).await
    }

    /// Refunds exactly one charge, even if it was decided locally while the store was down.
    ///
    /// The receipt must come from this limiter, or from another one on the same backend.
    ///
    /// The receipt is consumed. After an error, it is unknown whether anything was refunded, so a second attempt
    /// could refund twice. Permits are given back in the background then, or if the future is dropped.
    ///
    /// # Errors
    ///
    /// As [`Limiter::refund`], and if the receipt does not belong to this limit and client.
    pub async fn refund_receipt(
        &self,
        id: &str,
        receipt: Receipt,
    ) -> Result<Decision, LimiterError> {
        let limiter = self.limiter();
        let transaction = self.transaction(id).of_receipt(&receipt);
        let client = limiter.client(Operation::Refund, &transaction)?;
        let permits = UnansweredPermits::of_refund(limiter, &client, &receipt);
        let refunded = limiter.decide(Operation::Refund, &client).await;
        if !matches!(refunded, Err(LimiterError::Backend(_))) {
            permits.are_answered();
        }
        refunded
    }

    /// Charges the client and, if it is admitted to the line of a limit with [`max_wait`](crate::Limit::max_wait), waits until
    /// it is its turn. On other limits it does what [`spend`](Self::spend) does.
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
    /// If the future is dropped before it has returned, a task that outlives it refunds the charge exactly once. This works for the
    /// last caller in line. The slot of a caller in the middle of the line is lost.
    ///
    /// # Errors
    ///
    /// As [`Limiter::spend`], and if it has to wait outside of a tokio runtime with a timer. Nothing is charged then.
    pub async fn acquire(&self, id: &str) -> Result<Decision, LimiterError> {
        let limiter = self.limiter.clone();
        let client = limiter.client(Operation::Spend, &self.transaction(id))?;
        // Runs in a task. If the caller leaves, the task still decides, and then drops the charge, which refunds it.
        let charged = self.limiter.detached(async move {
            let decision = limiter.decide(Operation::Spend, &client).await?;
            let charge = PendingRefund::new(&limiter, &client.as_member(), &decision);
            Ok::<_, LimiterError>((decision, charge))
        });
        let (decision, charge) = charged.await?;
        if !decision.delay().is_zero() {
            runtime_with_timer()
                .map_err(|reason| LimiterError::unsupported(self.name(), reason))?;
            tokio::time::sleep(decision.delay()).await;
        }
        charge.into_iter().for_each(PendingRefund::keep);
        Ok(decision)
    }

    /// Returns the figures of the client's bucket. See [`Limiter::peek`].
    ///
    /// # Errors
    ///
    /// As [`Limiter::peek`].
    pub async fn peek(&self, id: &str) -> Result<Decision, LimiterError> {
        self.limiter().peek(&self.transaction(id)).await
    }

    /// Fills the client's bucket.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reset`].
    pub async fn reset(&self, id: &str) -> Result<(), LimiterError> {
        let transaction = self.transaction(id);
        self.limiter().reset(slice::from_ref(&transaction)).await
    }

    /// Like [`spend`](Self::spend), but never waits. Returns `None`, without charging, if the backend has to wait.
    ///
    /// # Errors
    ///
    /// As [`Limiter::spend`].
    #[must_use = "`None` means that nothing has been decided"]
    pub fn try_spend(&self, id: &str) -> Option<Result<Decision, LimiterError>> {
        self.limiter().try_spend(&self.transaction(id))
    }
}

impl fmt::Debug for LimitHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitHandle")
            .field("name", &self.name())
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}
