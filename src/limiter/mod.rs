//! The engine without HTTP: decides transactions by limits, with the state that a backend keeps.

mod block;
mod correction;
mod decide;
mod error;
mod handle;
mod not_admitted;
mod permit_keeper;
mod permit_record;
mod permits;
mod prepare;
mod record;
mod reload;
mod transaction;
mod wait_text;

use std::{fmt, sync::Arc, sync::Weak};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use smallvec::SmallVec;

pub use self::permits::Permit;
use self::{correction::UnattendedWork, permit_keeper::PermitKeeper};
pub(crate) use self::{
    correction::{Correction, PendingRefund},
    decide::{BoxedLimiterError, Members, owned},
    not_admitted::{DenialText, NotAdmittedBy},
    permits::LentPermit,
    prepare::check_line,
    record::is_listened_to,
    reload::LimitsUser,
    wait_text::wait_in_words,
};
pub use self::{
    error::LimiterError, handle::LimitHandle, not_admitted::NotAdmitted, transaction::Transaction,
};
use crate::{
    backend::{Backend, Stats},
    clock::{Clock, SystemClock, Timestamp},
    decision::{BatchDecision, Decision},
    limit::{Limits, LimitsError},
    metrics::Durations,
    transaction::{Mode, Operation},
};

/// Decides what clients may do, by its limits and the state in its backend.
///
/// Clones share the limits and the buckets.
///
/// ```
/// use tollgate::{Limit, Limiter, Limits, MemoryBackend, Transaction, transaction::Mode};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limits = Limits::builder()
///     .limit("orders", Limit::per_hour(100).burst(10))
///     .limit("certificates", Limit::per_day(50))
///     .build()?;
/// let limiter = Limiter::new(limits, MemoryBackend::new());
///
/// // One client, one limit.
/// let decision = limiter.spend(&Transaction::new("orders", "alice")).await?;
/// assert!(decision.allowed());
/// assert_eq!(decision.remaining(), Some(9));
///
/// // Several limits: all are charged, or none.
/// let batch = [
///     Transaction::new("orders", "alice"),
///     Transaction::new("certificates", "example.com").mode(Mode::CheckOnly),
/// ];
/// assert!(limiter.spend_batch(&batch).await?.allowed());
///
/// // The order failed, so it should not count.
/// limiter.refund(&Transaction::new("orders", "alice")).await?;
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Limiter {
    shared: Arc<LimiterState>,
    clock: Option<Arc<dyn Clock>>,
}

struct LimiterState {
    limits: ArcSwap<Limits>,
    backend: Box<dyn Backend>,
    users: Mutex<Vec<Weak<dyn LimitsUser>>>,
    durations: Durations,
    permits: Arc<PermitKeeper>,
    unattended: UnattendedWork,
}

impl Limiter {
    /// Creates a limiter that uses the backend's clock.
    ///
    /// # Panics
    ///
    /// If the backend does not fit the limits. [`try_new`](Self::try_new) returns the error.
    #[track_caller]
    pub fn new(limits: Limits, backend: impl Backend) -> Self {
        match Self::try_new(limits, backend) {
            Ok(limiter) => limiter,
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates a limiter that uses the backend's clock, for limits that users of your program write.
    ///
    /// # Errors
    ///
    /// If the backend cannot keep the buckets of a limit ([`Backend::admits`]), such as a [`MemoryBackend`] whose
    /// budget is smaller than one bucket with tiers, or a [`Lease`](crate::backend::Lease) for a limit that is too small.
    ///
    /// [`MemoryBackend`]: crate::MemoryBackend
    pub fn try_new(limits: Limits, backend: impl Backend) -> Result<Self, LimitsError> {
        reload::admit(None, &limits, &backend)?;
        limits.begin_counters();
        let shared = LimiterState {
            limits: ArcSwap::from_pointee(limits),
            backend: Box::new(backend),
            users: Mutex::default(),
            durations: Durations::default(),
            permits: Arc::default(),
            unattended: UnattendedWork::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            clock: None,
        })
    }

    /// Uses `clock` instead of the backend's clock. Existing clones keep theirs.
    /// [`ManualClock`](crate::clock::ManualClock) is for tests.
    ///
    /// A [`Timestamp`] is a clock that stands still: `limiter.clone().with_clock(instant)` decides as of that
    /// instant.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Figures of the backend, such as the number of buckets.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.backend.stats()
    }

    /// Gives back all permits, and the units that a [`Lease`](crate::backend::Lease) has charged ahead. Waits for the refunds
    /// of charges whose requests have ended or whose callers have left. Await this before the process ends.
    ///
    /// The limiter can still decide after that. If this future is dropped, units that it has not given back stay charged.
    ///
    /// # Errors
    ///
    /// If the store does not answer. Units that could not be given back stay charged until they come back with time. Permits are
    /// tried again in the background, and at once if this is called again.
    pub async fn close(&self) -> Result<(), LimiterError> {
        // A charge that is still at the store can take permits, and giving these back can be a correction.
        self.shared.unattended.ended().await;
        let released = self.shared.permits.close().await;
        self.shared.unattended.ended().await;
        let closed = self.shared.backend.close().await;
        released.and(closed.map_err(LimiterError::Backend))
    }

    /// Returns the limits in force.
    #[must_use]
    pub fn limits(&self) -> Arc<Limits> {
        self.shared.limits.load_full()
    }

    /// Returns the limits in force, for the duration of one decision.
    #[inline]
    fn in_force(&self) -> Guard<Arc<Limits>> {
        self.shared.limits.load()
    }

    /// Returns the time of the limiter's clock or, if it has none, of the system.
    pub(crate) fn time(&self) -> Timestamp {
        self.now().unwrap_or_else(|| SystemClock::new().now())
    }

    #[inline]
    fn now(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
    }

    /// Returns what [`spend`](Self::spend) would return, without charging.
    ///
    /// # Errors
    ///
    /// If the limit is not known, the id or the cost is not valid for it, or the backend does not answer.
    pub async fn check(&self, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        self.one(Operation::Check, transaction).await
    }

    /// Returns what [`spend_batch`](Self::spend_batch) would return, without charging.
    ///
    /// # Errors
    ///
    /// As [`spend_batch`](Self::spend_batch).
    pub async fn check_batch(
        &self,
        transactions: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        self.batch(Operation::Check, transactions).await
    }

    /// Charges the transaction if it fits.
    ///
    /// # Errors
    ///
    /// If the limit is not known, the id or the cost is not valid for it, or the backend does not answer. A denial is not an error.
    pub async fn spend(&self, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        self.one(Operation::Spend, transaction).await
    }

    /// Charges all transactions, or none if one with a vote does not fit. See [`Mode`].
    ///
    /// # Errors
    ///
    /// If one of them is an error for [`spend`](Self::spend), or two of them are for the same bucket. Nothing is charged then.
    pub async fn spend_batch(
        &self,
        transactions: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        self.batch(Operation::Spend, transactions).await
    }

    /// Like [`spend`](Self::spend), but never waits. Returns `None`, without charging, if the backend has to wait. A
    /// [`MemoryBackend`](crate::MemoryBackend) never has to.
    ///
    /// # Errors
    ///
    /// As [`spend`](Self::spend).
    #[must_use = "`None` means that nothing has been decided"]
    pub fn try_spend(
        &self,
        transaction: &Transaction<'_>,
    ) -> Option<Result<Decision, LimiterError>> {
        match self.try_one(Operation::Spend, transaction, |_| ()) {
            Ok(decided) => decided.ok().map(Ok),
            Err(error) => Some(Err(*error)),
        }
    }

    /// Like [`spend_batch`](Self::spend_batch), but never waits. Returns `None`, without charging, if the backend has
    /// to wait.
    ///
    /// # Errors
    ///
    /// As [`spend_batch`](Self::spend_batch).
    #[must_use = "`None` means that nothing has been decided"]
    pub fn try_spend_batch(
        &self,
        transactions: &[Transaction<'_>],
    ) -> Option<Result<BatchDecision, LimiterError>> {
        let mut decisions = open(transactions);
        match self.try_many(Operation::Spend, transactions, &mut decisions, |_| ()) {
            Ok(None) => Some(Ok(BatchDecision::new(decisions))),
            Ok(Some(())) => None,
            Err(error) => Some(Err(*error)),
        }
    }

    /// Refunds the cost of a transaction. The bucket never gets more than full. Refunding a
    /// [`CheckOnly`](crate::transaction::Mode::CheckOnly) transaction changes nothing.
    ///
    /// The decision shows the state after the refund. [`refunded`](Decision::refunded) tells whether anything was
    /// refunded.
    ///
    /// The refund is computed with the current limits. If a [`reload`](Self::reload) has made tokens more expensive
    /// since the charge, it returns more than was taken.
    ///
    /// A plain refund does not know who made the charge. If this process decided it locally, because the store did
    /// not answer, a plain refund would return tokens at the store that were never charged there.
    /// [`LimitHandle::refund_receipt`] refunds exactly one charge, wherever it was made.
    ///
    /// # Errors
    ///
    /// As [`spend`](Self::spend).
    pub async fn refund(&self, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        self.one(Operation::Refund, transaction).await
    }

    /// Refunds the costs of all transactions.
    ///
    /// # Errors
    ///
    /// As [`spend_batch`](Self::spend_batch).
    pub async fn refund_batch(
        &self,
        transactions: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        self.batch(Operation::Refund, transactions).await
    }

    /// Fills the buckets of these transactions, whatever their costs and modes.
    ///
    /// A client that is [blocked](crate::Limit::BLOCKED) stays blocked. [`peek`](Self::peek) shows the bucket before a reset.
    ///
    /// A bucket belongs to the algorithm of its limit. If a reload has changed the algorithm, this fills the bucket of the new one,
    /// and the old bucket stays as it is.
    ///
    /// # Errors
    ///
    /// As [`spend_batch`](Self::spend_batch), but for the cost.
    pub async fn reset(&self, transactions: &[Transaction<'_>]) -> Result<(), LimiterError> {
        self.batch(Operation::Reset, transactions).await.map(drop)
    }

    /// Renews the permits of [receipts](Transaction::of_receipt), on [concurrency limits](crate::Limit::concurrent): they count
    /// from now on, for another [hold](crate::Limit::hold). Each is renewed independently of the others, and several can be of one
    /// bucket. [`renewed`](Decision::renewed) says whether they were still there, and [`receipt`](Decision::receipt) is the new
    /// receipt. The old one is void.
    ///
    /// [`LimitHandle::enter`] and the [layer](crate::layer) renew their permits themselves.
    ///
    /// # Errors
    ///
    /// If the limit is of another algorithm, a transaction has no receipt, or a receipt belongs to another limit or client;
    /// and as [`spend`](Self::spend). If the backend does not answer, it may have renewed the permits all the same.
    pub async fn renew(
        &self,
        transactions: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        self.batch(Operation::Renew, transactions).await
    }

    /// Returns the figures of a bucket, for pages of administrators and of clients. Nothing is charged, counted or logged.
    ///
    /// [`remaining`](Decision::remaining) is what the bucket holds now, while the figures of [`check`](Self::check) are those after
    /// a spend. [`next_after`](Decision::next_after) is the time until the transaction's cost would pass without waiting in line,
    /// and [`allowed`](Decision::allowed) tells whether it would pass now without waiting. The transaction's mode has no effect.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Limits, MemoryBackend};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limits = Limits::builder().limit("exports", Limit::per_hour(3)).build()?;
    /// let exports = Limiter::new(limits, MemoryBackend::new()).limit("exports")?;
    ///
    /// exports.cost(2).spend("alice").await?;
    /// assert_eq!(exports.peek("alice").await?.remaining(), Some(1));
    /// assert_eq!(exports.check("alice").await?.remaining(), Some(0), "after one more");
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// While a store does not answer, the local bucket is shown, as [`Decision::source`] says.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub async fn peek(&self, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        let transaction = transaction.mode(Mode::CheckOnly).no_wait();
        self.one(Operation::Peek, &transaction).await
    }

    async fn batch(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        let mut decisions = open(transactions);
        self.many(operation, transactions, &mut decisions).await?;
        Ok(BatchDecision::new(decisions))
    }
}

/// Returns an initial decision for each transaction, to be overwritten.
fn open(transactions: &[Transaction<'_>]) -> SmallVec<[Decision; 4]> {
    transactions.iter().map(|_| Decision::NOT_LIMITED).collect()
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("limits", &self.limits().names())
            .field("backend", &self.shared.backend)
            .finish_non_exhaustive()
    }
}
