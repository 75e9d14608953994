//! Permits of concurrency limits, which are renewed while their work runs.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use tokio::{
    runtime::Handle,
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    time::Instant,
};

use super::{
    LimitHandle, Limiter, Transaction, charged::Client, error::LimiterError, prepare::limit_of,
    renewals::PermitKeeper,
};
use crate::{
    algorithm::Algorithm,
    backend::BackendError,
    decision::Decision,
    limit::Limit,
    metrics::PermitCount,
    task::detached,
    transaction::{OnFailure, Operation, Receipt},
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

/// The permits of one charge.
pub(super) struct PermitRecord {
    client: Client,
    /// The place among the permits of the limiter.
    pub(super) number: u64,
    /// The runtime that took them. It gives them back, if no other one does.
    runtime: Option<Handle>,
    /// Locked during a renewal; `None` once they are given back or lost.
    receipt: Arc<AsyncMutex<Option<Receipt>>>,
    /// Whether the work has ended. If that is during a renewal, the renewal gives them back.
    has_ended: AtomicBool,
    held: Mutex<Held>,
}

/// How long permits count.
struct Held {
    /// When they were taken or renewed last, at the latest.
    since: Instant,
    hold: Duration,
    /// When the next renewal is due.
    due: Instant,
    /// Whether a renewal since then may have moved them, although its answer was lost.
    may_have_moved: bool,
    /// Counts them until their work has ended, or they are lost.
    counted: Option<PermitCount>,
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
    /// back in a task that outlives the future.
    ///
    /// # Errors
    ///
    /// If the limit is of another algorithm, outside of a tokio runtime with a timer, and as [`Limiter::spend`].
    pub async fn enter(&self, id: &str) -> Result<Result<Permit, Decision>, LimiterError> {
        self.limiter().require_permits(&self.transaction(id))?;
        let (limit, id, since) = (self.clone(), Box::<str>::from(id), Instant::now());
        // If the caller leaves, it goes on, and then drops the permit, which gives it back.
        detached(async move {
            let (limiter, transaction) = (limit.limiter(), limit.transaction(&id));
            let decision = limiter.one(Operation::Spend, &transaction).await?;
            match decision.allowed() {
                true => Permit::hold(limiter, &transaction, &decision, since).map(Ok),
                false => Ok(Err(decision)),
            }
        })
        .await
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
        let record = limiter.shared.permits.keep(|number| PermitRecord {
            client,
            number,
            runtime: Handle::try_current().ok(),
            receipt: Arc::new(AsyncMutex::new(Some(receipt))),
            has_ended: AtomicBool::new(false),
            held: Mutex::new(Held {
                since,
                hold,
                due: since + hold / 3,
                may_have_moved: false,
                counted,
            }),
        });
        let permit = Self(smallvec![Arc::new(Work(record))]);
        // An error drops the permit, which gives it back.
        let renewing = limiter.shared.permits.renew_here();
        let limit = transaction.limit;
        renewing.map_err(|reason| LimiterError::unsupported(limit, reason))?;
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
    /// If the store does not answer. The permit then comes back when its hold is over.
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

impl Held {
    /// Returns whether the hold is not over.
    fn lasts(&self) -> bool {
        self.since.elapsed() < self.hold
    }

    fn may_have_moved(&self) -> bool {
        self.may_have_moved && self.lasts()
    }

    fn try_again(&mut self) {
        self.due = Instant::now() + self.hold / 12;
    }
}

impl PermitRecord {
    fn is_held(&self) -> bool {
        // During a renewal, nobody knows better.
        let receipt = self.receipt.try_lock();
        receipt.map_or(true, |receipt| receipt.is_some()) && self.held.lock().lasts()
    }

    /// Ends the work.
    fn end(self: &Arc<Self>) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.held.lock().counted = None;
        self.keeper().forget(self.number);
        // If a renewal has the lock, it gives the permits back.
        let receipt = self
            .receipt
            .try_lock()
            .ok()
            .and_then(|mut receipt| receipt.take());
        if let Some(receipt) = receipt {
            let client = self.client.clone();
            let refund = Box::pin(async move {
                let _logged = client.refund(&receipt).await;
            });
            self.client.limiter.detach_on(self.runtime.as_ref(), refund);
        }
    }

    /// Ends the work after a renewal that is under way. Returns whether the permits were still held.
    pub(super) async fn release(self: Arc<Self>) -> Result<bool, LimiterError> {
        self.keeper().forget(self.number);
        self.held.lock().counted = None;
        let receipt = self.receipt.lock().await.take();
        match receipt {
            Some(receipt) => self.client.refund(&receipt).await,
            None => Ok(false),
        }
    }

    fn keeper(&self) -> &Arc<PermitKeeper> {
        &self.client.limiter.shared.permits
    }

    /// Lets the permits be renewed soon.
    pub(super) fn renew_soon(&self) {
        self.held.lock().due = Instant::now();
    }

    /// Returns whether the permits have to be renewed within some time.
    pub(super) fn is_due_within(&self, time: Duration) -> bool {
        Instant::now() + time >= self.held.lock().due
    }

    /// Renews the permits. If the task of another runtime is renewing them, it does nothing.
    pub(super) async fn renew(self: Arc<Self>) {
        let Ok(mut receipt) = Arc::clone(&self.receipt).try_lock_owned() else {
            return;
        };
        self.renew_by(&mut receipt).await;
        drop(receipt);
        if self.has_ended.load(Ordering::SeqCst) {
            self.end();
        }
    }

    async fn renew_by(&self, receipt: &mut OwnedMutexGuard<Option<Receipt>>) {
        let Some(before) = &**receipt else {
            return;
        };
        let (limiter, since) = (&self.client.limiter, Instant::now());
        let transaction = self.client.transaction().of_receipt(before);
        let mut renewed = limiter.one(Operation::Renew, &transaction).await;
        let is_gone = |decision: &Decision| decision.limited() && !decision.renewed();
        if renewed.as_ref().is_ok_and(is_gone) && self.held.lock().may_have_moved() {
            // Nobody knows to when. Those that have moved expire.
            let again = self.client.transaction().cost(before.cost());
            let again = again.on_failure(OnFailure::Refuse);
            renewed = limiter.one(Operation::Spend, &again).await;
        }
        let hold = limiter.hold_of(&transaction);
        let mut held = self.held.lock();
        match (renewed, hold) {
            (Ok(renewed), Some(hold)) if renewed.receipt().is_some() => {
                (held.since, held.hold, held.due) = (since, hold, since + hold / 3);
                held.may_have_moved = false;
                **receipt = renewed.receipt();
            }
            // They may be there, so another attempt is made before they expire.
            (Err(error), _) if held.lasts() => {
                held.may_have_moved |=
                    !matches!(error, LimiterError::Backend(BackendError::NotDone(_)));
                held.try_again();
            }
            (Ok(renewed), _) if renewed.limited() && held.may_have_moved() => held.try_again(),
            // The limit has gone.
            (Ok(renewed), _) if !renewed.limited() => **receipt = None,
            _ => {
                (**receipt, held.counted) = (None, None);
                self.log_loss();
            }
        }
    }

    fn log_loss(&self) {
        let transaction = self.client.transaction();
        let limit = transaction.limit;
        tracing::warn!(
            limit,
            "a permit was lost while its work goes on: the process was paused or cut off for longer than the hold, which a \
             reload can have shortened, or the bucket was reset"
        );
        tracing::debug!(limit, id = ?transaction, "the lost permit");
    }
}

impl Limiter {
    /// Returns how long the permits of a client count; `None` if its limit has none.
    fn hold_of(&self, transaction: &Transaction<'_>) -> Option<Duration> {
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
