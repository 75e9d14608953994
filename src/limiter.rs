//! The engine: from limit names and ids to decisions. It does no I/O of its own and knows no HTTP.

mod note;
mod reload;
mod resolve;
mod used;

use std::{fmt, sync::Arc};

use arc_swap::ArcSwap;

pub(crate) use self::reload::Claim;
use self::{
    note::Note,
    reload::Claims,
    resolve::{Found, Resolved, Rooms, look_up, only},
    used::Used,
};
pub use self::{reload::ReloadError, resolve::LimiterError};
use crate::{
    backend::{Backend, Stats},
    clock::{Clock, Timestamp},
    decision::{BatchDecision, Decision},
    limit::Limits,
    metrics::Durations,
    transaction::{Batch, Operation, Transaction},
};

/// Decides what clients may do: limits, and the backend that keeps their buckets.
///
/// A clone is a handle on the same limits and buckets.
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
/// // Several at once: all are charged, or none.
/// let batch = [
///     Transaction::new("orders", "alice"),
///     Transaction::new("certificates", "example.com").mode(Mode::CheckOnly),
/// ];
/// assert!(limiter.spend_batch(&batch).await?.allowed());
///
/// // The order failed: it shall not count.
/// limiter.refund(&Transaction::new("orders", "alice")).await?;
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Limiter {
    shared: Arc<Shared>,
    clock: Option<Arc<dyn Clock>>,
}

struct Shared {
    limits: ArcSwap<Limits>,
    claims: Claims,
    durations: Durations,
    used: Used,
    backend: Box<dyn Backend>,
}

impl Limiter {
    /// A limiter that decides by the backend's own clock.
    ///
    /// # Panics
    ///
    /// If the backend cannot keep the buckets of a limit ([`Backend::admits`]): a [`MemoryBackend`] with less room than the
    /// history of one bucket takes.
    ///
    /// [`MemoryBackend`]: crate::MemoryBackend
    #[track_caller]
    pub fn new(limits: Limits, backend: impl Backend) -> Self {
        if let Err(error) = reload::admitted(&limits, &backend) {
            panic!("{error}");
        }
        let shared = Shared {
            limits: ArcSwap::from_pointee(limits),
            claims: Claims::default(),
            durations: Durations::default(),
            used: Used::default(),
            backend: Box::new(backend),
        };
        Self {
            shared: Arc::new(shared),
            clock: None,
        }
    }

    /// Decides by `clock` instead of the backend's own. Other handles keep theirs.
    ///
    /// A [`Timestamp`] is a clock that stands still, so `limiter.clone().with_clock(instant)`
    /// decides what would have been decided then.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// How the backend stands: how many buckets it holds, and the like.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.backend.stats()
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> Arc<Limits> {
        self.shared.limits.load_full()
    }

    /// Answers what [`spend`](Self::spend) would, and writes nothing.
    ///
    /// # Errors
    ///
    /// If the limit is not known, the id or the cost is not one for it, or the backend does not
    /// answer.
    pub async fn check(&self, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        self.decide(Operation::Check, transaction).await
    }

    /// Answers what [`spend_batch`](Self::spend_batch) would, and writes nothing.
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
        self.decide(Operation::Spend, transaction).await
    }

    /// Charges all transactions, or none if one that votes does not fit.
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

    /// Does what [`spend`](Self::spend) does without waiting, or answers `None`, having done
    /// nothing, if the backend has to wait. A [`MemoryBackend`](crate::MemoryBackend) never has.
    ///
    /// # Errors
    ///
    /// As [`spend`](Self::spend).
    #[must_use = "`None` means that nothing has been decided"]
    pub fn try_spend(
        &self,
        transaction: &Transaction<'_>,
    ) -> Option<Result<Decision, LimiterError>> {
        self.try_decide(Operation::Spend, transaction)
    }

    /// Does what [`spend_batch`](Self::spend_batch) does without waiting, or answers `None`, having
    /// done nothing, if the backend has to wait.
    ///
    /// # Errors
    ///
    /// As [`spend_batch`](Self::spend_batch).
    #[must_use = "`None` means that nothing has been decided"]
    pub fn try_spend_batch(
        &self,
        transactions: &[Transaction<'_>],
    ) -> Option<Result<BatchDecision, LimiterError>> {
        self.try_decide_batch(Operation::Spend, transactions)
    }

    /// Gives a transaction's cost back, never beyond full. Refunding a
    /// [`CheckOnly`](crate::transaction::Mode::CheckOnly) transaction gives nothing.
    ///
    /// The decision shows the state afterwards, and [`refunded`](Decision::refunded) says whether
    /// anything was given back.
    ///
    /// # Errors
    ///
    /// As [`spend`](Self::spend).
    pub async fn refund(&self, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        self.decide(Operation::Refund, transaction).await
    }

    /// Gives the costs of all transactions back.
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

    /// Makes the buckets of these transactions full, whatever their costs and modes.
    ///
    /// # Errors
    ///
    /// As [`spend_batch`](Self::spend_batch), but for the cost.
    pub async fn reset(&self, transactions: &[Transaction<'_>]) -> Result<(), LimiterError> {
        self.decide_batch(Operation::Reset, transactions)
            .await
            .map(drop)
    }

    pub(crate) async fn decide(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Result<Decision, LimiterError> {
        match self.try_decide(operation, transaction) {
            Some(decision) => decision,
            None => self.wait(operation, transaction).await,
        }
    }

    async fn decide_batch(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        match self.try_decide_batch(operation, transactions) {
            Some(decision) => decision,
            None => self.wait_batch(operation, transactions).await,
        }
    }

    pub(crate) fn try_decide(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Option<Result<Decision, LimiterError>> {
        let limits = self.shared.limits.load();
        let note = Note::start(&self.shared.durations, &limits, operation);
        let mut room = None;
        let found = look_up(&limits, operation, transaction, &mut room);
        let member = match found {
            Ok(Found::Member(member)) => member,
            Ok(other) => return Some(Ok(note.without_backend(transaction, &other))),
            Err(error) => return Some(Err(error)),
        };
        let members = [member];
        let batch = Batch::new(operation, &members).at(self.now());
        // An outcome is large: it is looked at where it is.
        let decided = match self.shared.backend.try_apply(&batch) {
            Some(Ok(ref outcome)) => only(&batch, outcome),
            Some(Err(error)) => Err(error.into()),
            None => return None,
        };
        note.decision(transaction, &decided);
        Some(decided)
    }

    fn try_decide_batch(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Option<Result<BatchDecision, LimiterError>> {
        let limits = self.shared.limits.load();
        let note = Note::start(&self.shared.durations, &limits, operation);
        let mut rooms = Rooms::new();
        let resolved = match Resolved::new(&limits, operation, transactions, &mut rooms) {
            Ok(resolved) => resolved,
            Err(error) => return Some(Err(error)),
        };
        let batch = resolved.batch(operation, self.now());
        if let Some(decision) = resolved.at_once(operation) {
            let decided = Ok(decision);
            note.batch(transactions, &decided);
            return Some(decided);
        }
        let decided = match self.shared.backend.try_apply(&batch) {
            Some(Ok(ref outcome)) => resolved.conclude(&batch, outcome),
            Some(Err(error)) => Err(error.into()),
            None => return None,
        };
        note.batch(transactions, &decided);
        Some(decided)
    }

    async fn wait(
        &self,
        operation: Operation,
        transaction: &Transaction<'_>,
    ) -> Result<Decision, LimiterError> {
        let limits = self.limits();
        let note = Note::start(&self.shared.durations, &limits, operation);
        let mut room = None;
        let member = match look_up(&limits, operation, transaction, &mut room)? {
            Found::Member(member) => member,
            other => return Ok(note.without_backend(transaction, &other)),
        };
        let members = [member];
        let batch = Batch::new(operation, &members).at(self.now());
        let decided = match self.shared.backend.apply(&batch).await {
            Ok(ref outcome) => only(&batch, outcome),
            Err(error) => Err(error.into()),
        };
        note.decision(transaction, &decided);
        decided
    }

    /// Decides a batch for which [`try_spend_batch`](Self::try_spend_batch) had no answer.
    pub(crate) async fn wait_batch(
        &self,
        operation: Operation,
        transactions: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        let limits = self.limits();
        let note = Note::start(&self.shared.durations, &limits, operation);
        let mut rooms = Rooms::new();
        let resolved = Resolved::new(&limits, operation, transactions, &mut rooms)?;
        let batch = resolved.batch(operation, self.now());
        if let Some(decision) = resolved.at_once(operation) {
            let decided = Ok(decision);
            note.batch(transactions, &decided);
            return decided;
        }
        let decided = match self.shared.backend.apply(&batch).await {
            Ok(ref outcome) => resolved.conclude(&batch, outcome),
            Err(error) => Err(error.into()),
        };
        note.batch(transactions, &decided);
        decided
    }
    /// Whether two handles are on the same limiter.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether the limit of this name is in shadow mode.
    pub(crate) fn is_shadow(&self, name: &str) -> bool {
        let limits = self.shared.limits.load();
        let named = limits.get(name);
        named.is_some_and(|named| limits.is_shadow(named))
    }

    fn now(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
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
