//! The engine without HTTP: decides transactions by limits, with the state that a backend keeps.

mod backend_dispatch;
mod backend_support;
mod block;
mod claims;
mod engine;
mod handle;
mod in_force;
mod limiter_error;
#[cfg(feature = "tokio")]
mod line;
mod members;
mod peek;
mod permits;
mod prepare;
mod rebuilt;
mod receipts;
mod recorder;
mod reload;
mod reload_error;
mod renewal;
mod requirement;
mod transactions;
mod turn;

use std::{fmt, sync::Arc};

pub(crate) use self::permits::HeldPermit;
#[cfg(feature = "tokio")]
pub use self::permits::Permit;
#[cfg(feature = "tokio")]
use self::permits::PermitKeeper;
use self::{
    backend_dispatch::BackendDispatch,
    in_force::{DecisionLimits, LimitsCell},
    rebuilt::RebuildDetector,
    requirement::RuleUses,
};
pub(crate) use self::{
    claims::{LookedUp, Undecided},
    recorder::is_listened_to,
    requirement::RuleUse,
    transactions::Transactions,
    turn::{Sleep, StartTime},
};
pub use self::{handle::LimitHandle, limiter_error::LimiterError, reload_error::ReloadError};
#[cfg(feature = "tokio")]
use crate::task::CorrectionsInFlight;
#[cfg(not(feature = "tokio"))]
use crate::task::detach;
use crate::{
    backend::{Backend, LimiterId, Stats},
    check::Reporter,
    clock::Clock,
    decision::{BatchDecision, Decision},
    limit::{Limits, NamedLimit},
    metrics::Durations,
    task::Closing,
    transaction::{Operation, Transaction},
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
    id: LimiterId,
    limits: LimitsCell,
    claims: RuleUses,
    durations: Durations,
    rebuilt: RebuildDetector,
    #[cfg(feature = "tokio")]
    permits: Arc<PermitKeeper>,
    #[cfg(feature = "tokio")]
    corrections: CorrectionsInFlight,
    backend: BackendDispatch,
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

    /// Creates a limiter that uses the backend's clock, for limits that a user of the program writes.
    ///
    /// # Errors
    ///
    /// If the backend cannot keep the buckets of a limit ([`Backend::admits`]), such as a [`MemoryBackend`] whose
    /// budget is smaller than one bucket with tiers, or if a [`Lease`](crate::backend::Lease) cannot lease a limit that asks for
    /// it. A limit that asks for a lease on a backend without leases is logged, and so is a `Lease` whose limits do not ask
    /// for one.
    ///
    /// [`MemoryBackend`]: crate::MemoryBackend
    pub fn try_new(limits: Limits, backend: impl Backend) -> Result<Self, ReloadError> {
        let backend = BackendDispatch::of(backend);
        backend_support::admit(&limits, &backend)?;
        limits.begin_counters();
        let id = LimiterId::default();
        backend_support::lease(&limits, &id, &*backend);
        let shared = LimiterState {
            id,
            limits: LimitsCell::new(limits),
            claims: RuleUses::default(),
            durations: Durations::default(),
            rebuilt: RebuildDetector::default(),
            #[cfg(feature = "tokio")]
            permits: Arc::default(),
            #[cfg(feature = "tokio")]
            corrections: CorrectionsInFlight::default(),
            backend,
        };
        Ok(Self {
            shared: Arc::new(shared),
            clock: None,
        })
    }

    /// Uses `clock` instead of the backend's clock. Existing clones keep theirs.
    /// [`ManualClock`](crate::clock::ManualClock) is for tests.
    ///
    /// A [`Timestamp`](crate::clock::Timestamp) is a clock that stands still: `limiter.clone().with_clock(instant)` decides as of that
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

    /// Gives back all permits and the units that a [`Lease`](crate::backend::Lease) has charged ahead, and charges the debts that a
    /// [`FailurePolicy`](crate::backend::FailurePolicy) owes the store. Corrections of requests that have ended, which run in the
    /// background, are waited for. Await this before the process ends.
    ///
    /// The limiter can still decide after that, but leases nothing. If this future is dropped, units that it has not
    /// given back stay charged.
    ///
    /// # Errors
    ///
    /// If the store does not answer. The rest then stays charged until time has replaced it.
    pub async fn close(&self) -> Result<(), LimiterError> {
        #[cfg(feature = "tokio")]
        {
            self.shared.permits.close().await;
            self.shared.corrections.ended().await;
        }
        Ok(self.shared.backend.close().await?)
    }

    /// Returns the limits in force.
    #[must_use]
    pub fn limits(&self) -> Arc<Limits> {
        self.shared.limits.share()
    }

    /// Runs corrections of charges in the background. [`close`](Self::close) waits for them.
    #[cfg_attr(
        not(feature = "tokio"),
        expect(
            clippy::unused_self,
            reason = "without a runtime, nothing is in flight"
        )
    )]
    pub(crate) fn detach(&self, closing: Closing) {
        #[cfg(feature = "tokio")]
        self.shared.corrections.detach(closing);
        #[cfg(not(feature = "tokio"))]
        detach(closing);
    }

    /// The limits in force, for the time of one decision.
    #[inline(always)]
    pub(crate) fn in_force(&self) -> DecisionLimits<'_> {
        self.shared.limits.read()
    }

    /// Returns what [`spend`](Self::spend) would return, without charging.
    ///
    /// # Errors
    ///
    /// If the limit is not known, the id or the cost is not one for it, or the backend does not
    /// answer.
    pub async fn check(&self, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        self.decide_one(Operation::Check, transaction).await
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
        self.decide_batch(Operation::Check, transactions).await
    }

    /// Charges the transaction if it fits.
    ///
    /// # Errors
    ///
    /// If the limit is not known, the id or the cost is not one for it, or the backend does not
    /// answer. A denial is not an error.
    pub async fn spend(&self, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        self.decide_one(Operation::Spend, transaction).await
    }

    /// Charges all transactions, or none if one with a vote does not fit. See [`Mode`](crate::transaction::Mode).
    ///
    /// # Errors
    ///
    /// If one of them is an error for [`spend`](Self::spend), or two are for the same bucket. Then
    /// nothing is charged.
    pub async fn spend_batch(
        &self,
        transactions: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        self.decide_batch(Operation::Spend, transactions).await
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
        self.try_decide_one(Operation::Spend, transaction)
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
        self.try_decide(Operation::Spend, transactions)
    }

    /// Refunds the cost of a transaction. The bucket never gets more than full. Refunding a
    /// [`CheckOnly`](crate::transaction::Mode::CheckOnly) transaction changes nothing.
    ///
    /// The decision shows the state after the refund. [`refunded`](Decision::refunded) tells whether anything was
    /// refunded.
    ///
    /// The refund is computed with the current limits. If a [`reload`](Self::reload) has made tokens more expensive
    /// since the charge, it returns more than was taken. An [`Assessment`](crate::layer::Assessment) or a receipt
    /// never does.
    ///
    /// A plain refund does not know who made the charge. If this process decided it locally, because the store did
    /// not answer, a plain refund would return tokens at the store that were never charged there.
    /// [`LimitHandle::refund_receipt`] refunds exactly one charge, wherever it was made.
    ///
    /// # Errors
    ///
    /// As [`spend`](Self::spend).
    pub async fn refund(&self, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        self.decide_one(Operation::Refund, transaction).await
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
        self.decide_batch(Operation::Refund, transactions).await
    }

    /// Fills the buckets of these transactions, whatever their costs and modes.
    ///
    /// A client that is [blocked](crate::Limit::BLOCKED) stays blocked. [`peek`](Self::peek) tells what a reset would change.
    ///
    /// A bucket belongs to its algorithm, and those of the algorithms in force are filled. If a reload has changed the
    /// algorithm of a limit, what was spent before stays in the old bucket.
    ///
    /// # Errors
    ///
    /// As [`spend_batch`](Self::spend_batch), but for the cost.
    pub async fn reset(&self, transactions: &[Transaction<'_>]) -> Result<(), LimiterError> {
        let decided = self.decide_batch(Operation::Reset, transactions).await;
        decided.map(drop)
    }

    /// Fills all buckets of a client, whatever the limit: those of every limit whose id format accepts the id. Returns
    /// the names of these limits.
    ///
    /// For accounts with [plans](crate::Rule::limit_by), it fills the bucket of each plan. A client that is
    /// [blocked](crate::Limit::BLOCKED) stays blocked, also [for a time](Self::block).
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Limits, MemoryBackend};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let plans = Limits::builder().limit("free", Limit::per_hour(1)).limit("pro", Limit::per_hour(100));
    /// let limiter = Limiter::new(plans.build()?, MemoryBackend::new());
    /// limiter.limit("free")?.spend("alice").await?;
    ///
    /// assert_eq!(limiter.reset_client("alice").await?, ["free", "pro"]);
    /// assert!(limiter.limit("free")?.check("alice").await?.allowed());
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the backend does not answer.
    pub async fn reset_client(&self, id: &str) -> Result<Vec<String>, LimiterError> {
        let limits = self.limits();
        let accept = |named: &&NamedLimit| {
            let folded = named.name.format().fold(id);
            !named.name.is_block()
                && folded.is_ok_and(|folded| {
                    let limit = named.limit_of(&folded);
                    limit.is_some_and(|limit| limit.algorithm().is_some())
                })
        };
        let named: Vec<_> = limits.iter().filter(accept).collect();
        let names = || named.iter().map(|named| named.name.as_str());
        let buckets: Vec<_> = names().map(|name| Transaction::new(name, id)).collect();
        self.reset(&buckets).await?;
        Ok(names().map(str::to_owned).collect())
    }

    /// Counts a request to a layer.
    #[inline]
    pub(crate) fn note_request(&self, reporter: &Arc<Reporter>) {
        self.shared.rebuilt.note(reporter);
    }

    /// The permits that are renewed until their work ends.
    #[cfg(feature = "tokio")]
    pub(crate) fn permits(&self) -> &Arc<PermitKeeper> {
        &self.shared.permits
    }

    /// Returns whether another clone of this limiter decides by the same clock.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_clock_of(&self, other: &Self) -> bool {
        match (&self.clock, &other.clock) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            (ours, theirs) => ours.is_none() && theirs.is_none(),
        }
    }

    /// Returns whether the backend never has to wait.
    pub(crate) fn decides_at_once(&self) -> bool {
        self.memory().is_some()
    }

    /// Returns whether both are the same limiter.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns whether the limit of this name is in shadow mode.
    pub(crate) fn is_shadow(&self, name: &str) -> bool {
        let limits = self.in_force();
        let named = limits.get(name);
        named.is_some_and(|named| limits.is_shadow(named))
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("limits", &self.limits().names())
            .field("backend", &self.shared.backend)
            .finish_non_exhaustive()
    }
}
