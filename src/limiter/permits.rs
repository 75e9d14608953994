//! Permits of concurrency limits, which are renewed while their work runs.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use smallvec::{SmallVec, smallvec};
use tokio::time::Instant;

use super::{
    LimitHandle, Limiter, Transaction, charged::Client, error::LimiterError, lookup::limit_of,
    permit_record::PermitRecord,
};
use crate::{
    algorithm::Algorithm,
    decision::Decision,
    limit::Limit,
    task::detached,
    transaction::{Batch, Operation, Receipt},
};

/// The right to do a piece of work, on a [concurrency limit](crate::Limit::concurrent). Dropping it ends the work, and lets
/// the next one start. [`LimitHandle::enter`] returns it, and [`Assessment::permits`](crate::layer::Assessment::permits) those
/// of a request.
///
/// While it exists, it is renewed in the background. A process that dies gives its permits back after at most the
/// [hold](crate::Limit::hold).
///
/// It is empty if nothing was charged, because no limit is configured or it is in shadow mode.
#[derive(Default)]
#[must_use = "dropping a permit gives it back"]
pub struct Permit(SmallVec<[Arc<Work>; 1]>);

/// A permit that somebody else holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct LentPermit(SmallVec<[Weak<Work>; 1]>);

impl LentPermit {
    /// Returns the permit, if somebody still holds it.
    pub(crate) fn permit(&self) -> Permit {
        Permit(self.0.iter().filter_map(Weak::upgrade).collect())
    }
}

/// A piece of work, which ends when it is dropped.
struct Work(Arc<PermitRecord>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl LimitHandle {
    /// Takes a permit of a [concurrency limit](crate::Limit::concurrent) for a piece of work, or returns the decision that
    /// denies it.
    ///
    /// The permit is given back when it is dropped, and renewed in the background until then.
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
    /// back in the background.
    ///
    /// # Errors
    ///
    /// If the limit is of another algorithm, outside of a tokio runtime with a timer, and as [`Limiter::spend`].
    pub async fn enter(&self, id: &str) -> Result<Result<Permit, Decision>, LimiterError> {
        self.limiter().require_permits(&self.transaction(id))?;
        let limiter = self.limiter();
        let transaction = self.transaction(id);
        let since = Instant::now();
        let decision = limiter.one(Operation::Spend, &transaction).await?;
        if !decision.allowed() {
            return Ok(Err(decision));
        }
        Permit::hold(limiter, &transaction, &decision, since).map(Ok)
    }
}

impl Permit {
    /// Holds the permits that a decision on a transaction has charged. They count from when it was asked for, at the latest.
    pub(crate) fn hold(
        limiter: &Limiter,
        transaction: &Transaction<'_>,
        decision: &Decision,
        since: Instant,
    ) -> Result<Self, LimiterError> {
        // The limits can be other ones by now, so the limit is looked up by its name.
        let client = Client::of(limiter, transaction);
        let hold = limiter.hold_of(&client.transaction());
        let (Some(receipt), Some(hold)) = (decision.receipt(), hold) else {
            return Ok(Self::default());
        };
        let limits = limiter.in_force();
        let named = limits.get(transaction.limit);
        let counted = named.map(|named| named.meter().held(named.name(), receipt.cost()));
        let record = limiter
            .shared
            .permits
            .keep(|number| PermitRecord::new(number, client, receipt, (since, hold), counted));
        let permit = Self(smallvec![Arc::new(Work(record))]);
        // An error drops the permit, which gives it back.
        let running = limiter.shared.permits.run_here();
        let limit = transaction.limit;
        running.map_err(|reason| LimiterError::unsupported(limit, reason))?;
        Ok(permit)
    }

    /// Holds what several permits hold.
    pub(crate) fn join(permits: impl IntoIterator<Item = Self>) -> Self {
        Self(permits.into_iter().flat_map(|permit| permit.0).collect())
    }

    /// Lends the permit to others, who can hold it for as long as somebody does.
    pub(crate) fn lend(&self) -> LentPermit {
        LentPermit(self.0.iter().map(Arc::downgrade).collect())
    }

    /// Returns whether nobody else holds it.
    pub(crate) fn is_held_here_alone(&self) -> bool {
        self.0.iter().all(|work| Arc::strong_count(work) == 1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the permit still counts. It is lost if this process was paused or cut off from the store for longer
    /// than the hold, which is logged. Others may have started in its place since.
    ///
    /// It is always true if no limit is configured.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.iter().all(|work| work.0.is_held())
    }

    /// Gives the permit back, and waits until the store has it. Returns whether it was still held.
    ///
    /// It is safe to drop the future: the permit is given back all the same. A permit of a request comes back when its layer
    /// gives it back, too.
    ///
    /// # Errors
    ///
    /// If the store does not answer. The permit is then given back in the background, as soon as the store answers.
    pub async fn release(self) -> Result<bool, LimiterError> {
        let mut was_held = true;
        for work in self.0 {
            was_held &= match Arc::try_unwrap(work) {
                Ok(work) => detached(Arc::clone(&work.0).release()).await?,
                Err(shared) => shared.0.is_held(),
            };
        }
        Ok(was_held)
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("is_held", &self.is_held())
            .finish_non_exhaustive()
    }
}

/// Permits that the store was asked for, until its answer is there. If none comes, they are given back by their names.
pub(super) struct AskedPermits(SmallVec<[AskedPermit; 1]>);

struct AskedPermit {
    client: Client,
    receipt: Receipt,
    hold: Duration,
}

impl AskedPermits {
    pub(super) fn new(
        limiter: &Limiter,
        batch: &Batch<'_>,
        transactions: &[Transaction<'_>],
    ) -> Self {
        let asked = batch.members.iter().filter_map(|member| {
            let hold = member.algorithm.hold()?;
            let charge = member.ask.charge.filter(|_| batch.writes(member))?;
            let is_spent = batch.operation == Operation::Spend;
            is_spent.then(|| AskedPermit {
                client: Client::of(limiter, &transactions[member.place]),
                receipt: Receipt::new(member.key.algorithm, charge, false, member.print.short()),
                hold,
            })
        });
        Self(asked.collect())
    }

    pub(super) fn are_answered(mut self) {
        self.0.clear();
    }
}

impl Drop for AskedPermits {
    fn drop(&mut self) {
        for AskedPermit {
            client,
            receipt,
            hold,
        } in self.0.drain(..)
        {
            let limiter = client.limiter.clone();
            let record = limiter.shared.permits.keep(|number| {
                PermitRecord::new(number, client, receipt, (Instant::now(), hold), None)
            });
            record.end();
        }
    }
}

impl Limiter {
    /// Returns how long the permits of a client count; `None` if its limit has none.
    pub(super) fn hold_of(&self, transaction: &Transaction<'_>) -> Option<Duration> {
        let limits = self.in_force();
        let limit = limit_of(&limits, transaction).ok()??;
        limit.algorithm()?.hold()
    }

    /// Rejects a transaction whose limit has values, but no permits.
    fn require_permits(&self, transaction: &Transaction<'_>) -> Result<(), LimiterError> {
        let limits = self.in_force();
        let limit = limit_of(&limits, transaction)?;
        match limit.and_then(Limit::algorithm).map(Algorithm::hold) {
            Some(None) => Err(LimiterError::unsupported(
                transaction.limit,
                "it has no permits: only a limit of what runs at once (`concurrent`) has them",
            )),
            _ => Ok(()),
        }
    }
}
