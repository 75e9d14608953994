use std::{fmt, slice, sync::Arc};

use super::{
    held::{HeldPermit, Moment},
    turn::PermitTurn,
};
use crate::{
    decision::Decision,
    limit::Limit,
    limiter::{LimitHandle, Limiter, LimiterError, prepare::canonical},
    task::detached,
    transaction::{Mode, Transaction},
};

/// The right to do a piece of work, on a [concurrency limit](crate::Limit::concurrent). Dropping it ends the work, and lets
/// the next one start. [`LimitHandle::enter`] returns it.
///
/// While it exists, it is renewed in the background. A process that dies gives its permits back after at most the
/// [hold](crate::Limit::hold).
#[must_use = "dropping a permit gives it back"]
pub struct Permit {
    /// `None` if nothing was charged, because no limit is configured or it is in shadow mode.
    held: Option<HeldPermit>,
    decision: Decision,
}

impl Permit {
    /// The decision that granted the permit.
    #[must_use]
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns whether the permit still counts. It is lost if this process was paused or cut off from the store for longer
    /// than the hold, which is logged. Others may have started in its place since.
    ///
    /// It is always true if no limit is configured.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let Some(held) = &self.held else {
            return true;
        };
        held.record().state().is_held()
    }

    /// Gives the permit back, and waits until the store has it. Returns whether it was still held.
    ///
    /// It is safe to drop the future: the permit is given back all the same.
    ///
    /// # Errors
    ///
    /// If the store does not answer. The permit then comes back when its hold is over.
    pub async fn release(mut self) -> Result<bool, LimiterError> {
        let Some(held) = self.held.take() else {
            return Ok(true);
        };
        // When `held` is dropped, nothing is left to give back.
        Arc::clone(held.record()).release().await
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("is_held", &self.is_held())
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}

impl Limiter {
    /// Rejects a transaction whose limit has values, but no permits.
    fn require_permits(&self, transaction: &Transaction<'_>) -> Result<(), LimiterError> {
        let limits = self.in_force();
        let Some(named) = limits.find(transaction.limit) else {
            let name = transaction.limit.as_str();
            return Err(LimiterError::unknown_limit(name, &limits));
        };
        let mut room = None;
        let id = canonical(named, transaction.id, transaction.is_canonical(), &mut room);
        let limit = named.in_force(id.map_err(|error| *error)?);
        match limit.and_then(Limit::algorithm) {
            Some(algorithm) if algorithm.hold().is_none() => {
                Err(LimiterError::not_renewable(transaction.limit.as_str()))
            }
            _ => Ok(()),
        }
    }
}

impl LimitHandle {
    /// Takes a permit of a [concurrency limit](crate::Limit::concurrent) for a piece of work, or returns the decision that
    /// denies it.
    ///
    /// The permit is given back when it is dropped, and renewed in the background until then. On a limit with a
    /// [`max_wait`](crate::Limit::max_wait), callers wait in order of arrival until a permit comes back.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Limits, MemoryBackend};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let limits = Limits::builder().limit("exports", Limit::concurrent(2)).build()?;
    /// let exports = Limiter::new(limits, MemoryBackend::new()).limit("exports")?;
    ///
    /// let Ok(permit) = exports.enter("alice").await? else {
    ///     panic!("two exports of alice are running");
    /// };
    /// // Write the export.
    /// drop(permit);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cancellation safety
    ///
    /// It is safe to drop the future at any time. A permit that the store has granted by then, or grants later, is given
    /// back in a task that outlives the future.
    ///
    /// # Errors
    ///
    /// If the limit is of another algorithm, and as [`Limiter::spend`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, or in one without a timer.
    pub async fn enter(&self, id: &str) -> Result<Result<Permit, Decision>, LimiterError> {
        let transaction = self.transaction(id).mode(Mode::CheckAndSpend);
        self.limiter().require_permits(&transaction)?;
        if self.limiter().in_force().has_lines() {
            let turn = self
                .limiter()
                .join_lines(&self.limiter().in_force(), slice::from_ref(&transaction));
            if let Some(turn) = turn {
                return self.enter_at(&turn, &transaction).await;
            }
        }
        let since = Moment::now();
        match self.limiter().try_spend(&transaction) {
            Some(decided) => Ok(permit(since, self.limiter(), &transaction, decided?)),
            None => {
                let (limit, id) = (self.clone(), Box::<str>::from(id));
                // If the caller leaves, the task continues, and then drops the permit, which gives it back.
                detached(async move {
                    let transaction = limit.transaction(&id).mode(Mode::CheckAndSpend);
                    let decision = limit.limiter().spend(&transaction).await?;
                    Ok(permit(since, limit.limiter(), &transaction, decision))
                })
                .await
            }
        }
    }

    /// Decides in memory, in order of arrival, until a permit has come back or the longest wait is over.
    async fn enter_at(
        &self,
        turn: &PermitTurn,
        transaction: &Transaction<'_>,
    ) -> Result<Result<Permit, Decision>, LimiterError> {
        turn.comes().await;
        loop {
            // Memory answers at once, so a caller that leaves has either no permit or this one.
            let since = Moment::now();
            let decision = self.limiter().spend(transaction).await?;
            let permit = permit(since, self.limiter(), transaction, decision);
            match permit {
                Err(denial) if turn.comes_after_denial(&denial).await => {}
                entered => return Ok(entered),
            }
        }
    }
}

#[expect(clippy::result_large_err, reason = "a permit has its decision, too")]
fn permit(
    since: Moment,
    limiter: &Limiter,
    transaction: &Transaction<'_>,
    decision: Decision,
) -> Result<Permit, Decision> {
    if !decision.allowed() {
        return Err(decision);
    }
    Ok(Permit {
        held: HeldPermit::asked_at(since, limiter, transaction, &decision),
        decision,
    })
}
