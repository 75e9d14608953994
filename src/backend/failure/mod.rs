//! A backend around another backend that can fail or be slow.

mod breaker;
mod breakers;
mod circuit;
mod debts;
mod learn;
mod learnt_units;
mod local;
mod order;
mod owed;
mod payback;
mod pending;
mod server_name;
mod share;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use thiserror::Error;

use self::{
    breakers::Breakers,
    local::{DEFAULT_DEBTS, Local},
    payback::Payer,
    share::Share,
};
use super::{
    Backend, BackendError, Begun, Deciding, LeaseTerms, MemoryBackend, NotAdmitted, Servers, Stats,
    one_task::OneTask, slot::Slots,
};
use crate::{
    clock::Timestamp,
    decision::{Outcome, Source},
    metrics,
    transaction::{Algorithm, Batch, LeaseShare, Member, OnFailure, Operation},
};

/// Bounds the effect of a failing store: each decision has a deadline, a store that keeps failing is not asked, and
/// each limit has a policy for that time.
///
/// ```no_run
/// # #[cfg(feature = "redis")]
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate::{
///     Limit, Limiter, Limits, RedisBackend,
///     backend::{DenyCache, FailurePolicy},
///     limit::LimitName,
///     transaction::OnFailure,
/// };
///
/// let limits = Limits::builder()
///     .limit("requests", Limit::per_second(10).burst(20))
///     .limit(LimitName::from("login").on_failure(OnFailure::Refuse), Limit::per_minute(5))
///     .build()?;
/// let redis = RedisBackend::new("redis://127.0.0.1:6379")?;
/// let backend = FailurePolicy::new(DenyCache::new(redis)).share(1, 4);
/// let limiter = Limiter::new(limits, backend);
/// # Ok(()) }
/// ```
///
/// - The **deadline** covers everything the store does: connecting, queueing and all round trips. The policy decides
///   requests that got no answer by then. The store may have charged them as well.
/// - A **circuit breaker** opens after consecutive failures. It then lets one request at a time through to probe the
///   store, after 50 to 100 ms at first and later after up to a second. A master that has become a replica is not a
///   failure, because its client finds the new one. Each master of a cluster has its own breaker: while one is down,
///   the store decides the buckets of the others. The policy decides a batch over several masters as a whole if one
///   of them is down.
/// - At most [`max_in_flight`](Self::max_in_flight) requests wait for the store. The policy decides the others.
/// - With [`OnFailure::Local`], a bounded memory in this process decides. It follows the decisions of the store, so
///   that no client gets a new burst because the store has failed, and each process can have a [share](Self::share)
///   of each limit. [`OnFailure::Allow`] admits requests, as far as this limit is concerned. [`OnFailure::Refuse`]
///   makes them errors.
/// - In a **batch**, one limit that refuses makes the whole batch an error. Otherwise the limits with local decisions
///   decide, and those that allow are left out.
/// - **Refunds and resets** that do not reach the store are errors ([`BackendError::Unavailable`],
///   [`BackendError::NotDone`] or [`BackendError::Moving`]), whatever the limit says. They change nothing in this
///   process, because a process cannot refund the store's charges.
///
/// Each transition of a breaker is logged once, when it opens and when it closes; for a flapping server, every ten
/// seconds.
///
/// During an outage, each process can admit a client up to its share of the burst, minus the charges that it has seen,
/// plus its share of the rate. A second outage does not renew that. After the outage, the store is charged for the
/// local decisions, for as many buckets as [`pay_back`](Self::pay_back) says.
#[derive(Debug)]
pub struct FailurePolicy<B> {
    inner: Arc<B>,
    local: Local,
    breakers: Arc<Breakers>,
    payback: OneTask,
    on_failure: OnFailure,
    deadline: Duration,
    in_flight: Slots,
    fallbacks: metrics::Fallbacks,
}

impl<B: Backend> FailurePolicy<B> {
    /// The default of [`deadline`](Self::deadline).
    pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(50);

    /// The default of [`max_in_flight`](Self::max_in_flight).
    pub const DEFAULT_MAX_IN_FLIGHT: usize = 4096;

    /// The default of [`pay_back`](Self::pay_back).
    pub const DEFAULT_PAY_BACK: usize = DEFAULT_DEBTS;

    /// The default of [`failures_in_a_row`](Self::failures_in_a_row).
    pub const DEFAULT_FAILURES_IN_A_ROW: u32 = 5;

    /// Wraps a backend. While it does not answer within 50 ms, limits are decided locally.
    #[must_use]
    pub fn new(inner: B) -> Self {
        let has_several = inner.servers().is_some();
        Self {
            inner: Arc::new(inner),
            local: Local::new(MemoryBackend::new(), Share::WHOLE),
            breakers: Arc::new(Breakers::new(Self::DEFAULT_FAILURES_IN_A_ROW, has_several)),
            payback: OneTask::default(),
            on_failure: OnFailure::Local,
            deadline: Self::DEFAULT_DEADLINE,
            in_flight: Slots::new(Self::DEFAULT_MAX_IN_FLIGHT),
            fallbacks: metrics::Fallbacks::default(),
        }
    }

    /// Sets how long a decision may take. With zero, only backends that never wait can decide, and others may have
    /// made the change all the same.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets what happens to limits that have no [policy of their own](crate::limit::LimitName::on_failure).
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Sets the part of each limit that this process may use locally: with four processes, `share(1, 4)`. Of the
    /// burst it is rounded up, and a cost above that is denied.
    ///
    /// # Panics
    ///
    /// If the share is 0, or more than 1.
    #[must_use]
    #[track_caller]
    pub fn share(mut self, part: u32, of: u32) -> Self {
        self.local = self.local.with_share(Share::new(part, of));
        self
    }

    /// Sets the memory for local decisions, and with it the number of buckets. The policy remembers the same number
    /// of buckets of the store.
    #[must_use]
    pub fn memory(mut self, memory: MemoryBackend) -> Self {
        self.local = self.local.with_memory(memory);
        self
    }

    /// Sets how many decisions may wait for the store.
    #[must_use]
    pub fn max_in_flight(mut self, max_in_flight: usize) -> Self {
        self.in_flight = Slots::new(max_in_flight);
        self
    }

    /// Sets the number of consecutive failures that open the breaker, at least 1.
    #[must_use]
    pub fn failures_in_a_row(mut self, failures: u32) -> Self {
        let has_several = self.store().servers().is_some();
        self.breakers = Arc::new(Breakers::new(failures.max(1), has_several));
        self
    }

    /// Sets the maximum number of buckets whose local decisions are charged to the store after an outage. Above it, only
    /// the buckets that owe the most are charged. The default is 10,000. With 0, nothing is charged.
    ///
    /// The store charges the debts within seconds, one after the other, from a task of the tokio runtime. A bucket owes
    /// what would still be charged if the store had decided, so a client that kept to its rate owes next to nothing.
    /// Each debit is sent once: if its outcome is unknown, it is not repeated. The units of a [window](crate::window) are
    /// charged at the instants at which they were taken, one instant after the other. Limits with [tiers](crate::tiers)
    /// cannot be debited.
    #[must_use]
    pub fn pay_back(mut self, buckets: usize) -> Self {
        self.local = self.local.with_debts(buckets);
        self
    }

    /// Returns the store itself. The pointer to it also implements `Backend`.
    fn store(&self) -> &B {
        &self.inner
    }

    fn payer(&self) -> Payer<B> {
        Payer {
            store: Arc::downgrade(&self.inner),
            local: self.local.clone(),
            breakers: Arc::clone(&self.breakers),
            deadline: self.deadline,
        }
    }

    /// Asks the store, unless a breaker is open. Only a store that has to be waited for counts as asked.
    #[inline(always)]
    pub(super) fn ask<'a>(
        &'a self,
        batch: &'a Batch<'a>,
    ) -> Begun<impl Future<Output = Result<Outcome, BackendError>> + Send + 'a> {
        if let Some(refunded) = self.local.refund(batch) {
            return Begun::Decided(refunded);
        }
        let unasked = |error| Begun::Decided(self.unasked(batch, error));
        let Some(passes) = self.breakers.admit(self.store().servers(), batch) else {
            return unasked(BackendError::not_done(CircuitOpen));
        };
        let Some(slot) = self.in_flight.take() else {
            return unasked(BackendError::not_done(TooManyInFlight));
        };
        let watching = self.local.order.watch(batch, self.deadline);
        match self.store().begin_unboxed(batch, Some(self.deadline)) {
            Begun::Decided(mut decided) => {
                self.follow(batch, &mut decided);
                Begun::Decided(decided)
            }
            waits => waits.then(move |decided| {
                passes.ended(decided);
                drop(slot);
                self.follow(batch, decided);
                drop(watching);
            }),
        }
    }

    /// Learns from the store's outcome, or replaces its error by the decision without it.
    fn follow(&self, batch: &Batch<'_>, decided: &mut Result<Outcome, BackendError>) {
        match decided {
            Ok(outcome) => {
                // A cached denial was already learnt when the store answered.
                if outcome.source() == Source::Store {
                    self.local.learn(batch, outcome);
                    if !self.local.debts().is_empty() {
                        self.payback.begin(|| self.payer().run());
                    }
                }
            }
            Err(BackendError::InvalidNow(_)) => {}
            Err(error) if may_be_local(batch) => {
                let certain = !matches!(error, BackendError::Unavailable(_));
                *decided = self.meanwhile(batch, certain);
            }
            Err(_) => {
                if let Err(error) = batch.now.map_or(Ok(()), Timestamp::validate) {
                    *decided = Err(error.into());
                }
            }
        }
    }

    /// Decides without asking the store.
    fn unasked(&self, batch: &Batch<'_>, error: BackendError) -> Result<Outcome, BackendError> {
        if may_be_local(batch) {
            return self.meanwhile(batch, true);
        }
        let mut decided = Err(error);
        self.follow(batch, &mut decided);
        decided
    }

    /// Decides without the store. `certain` means that the store has charged nothing.
    fn meanwhile(&self, batch: &Batch<'_>, certain: bool) -> Result<Outcome, BackendError> {
        let policy = |member: &Member<'_>| match member.on_failure_or(self.on_failure) {
            OnFailure::Refuse if member.shadow => OnFailure::Allow,
            on_failure => on_failure,
        };
        if batch
            .members
            .iter()
            .any(|member| policy(member) == OnFailure::Refuse)
        {
            self.fallbacks.count(OnFailure::Refuse);
            return Err(match certain {
                true => BackendError::not_done(RefusedByLimit),
                false => BackendError::unavailable(RefusedByLimit),
            });
        }
        let is_local = |member: &Member<'_>| policy(member) == OnFailure::Local;
        let locally = batch.members.iter().any(is_local);
        self.fallbacks.count(match locally {
            true => OnFailure::Local,
            false => OnFailure::Allow,
        });
        self.local.decide(batch, is_local, certain)
    }
}

#[async_trait]
impl<B: Backend> Backend for FailurePolicy<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.ask(batch).decided().await
    }

    fn begin<'a>(&'a self, batch: &'a Batch<'a>) -> Begun<Deciding<'a>> {
        self.ask(batch).boxed()
    }

    fn try_apply(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        if let Some(refunded) = self.local.refund(batch) {
            return Some(refunded);
        }
        let mut decided = if self.in_flight.are_taken() {
            Err(BackendError::not_done(TooManyInFlight))
        } else if self.breakers.admits(self.store().servers(), batch) {
            self.store().try_apply(batch)?
        } else {
            Err(BackendError::not_done(CircuitOpen))
        };
        self.follow(batch, &mut decided);
        Some(decided)
    }

    fn lease(
        &self,
        algorithm: &Algorithm,
        share: LeaseShare,
    ) -> Result<Option<LeaseTerms>, NotAdmitted> {
        self.store().lease(algorithm, share)
    }

    /// Pays the debts to the store, if it answers, and closes it.
    async fn close(&self) -> Result<(), BackendError> {
        self.payer().round().await;
        self.store().close().await
    }

    fn servers(&self) -> Option<&dyn Servers> {
        self.store().servers()
    }

    /// The memory for local decisions must have room as well.
    fn admits(&self, algorithm: &Algorithm) -> Result<(), NotAdmitted> {
        self.store().admits(algorithm)?;
        self.local.admits(algorithm)
    }

    fn stats(&self) -> Stats {
        let (inner, local) = (self.store().stats(), self.local.stats());
        Stats {
            buckets: inner.buckets.or(local.buckets),
            max_buckets: inner.max_buckets.or(local.max_buckets),
            evictions: inner.evictions.or(local.evictions),
            is_open: Some(self.breakers.is_open()),
        }
    }
}

/// Returns whether this process can answer for the store. It cannot refund what the store has charged.
fn may_be_local(batch: &Batch<'_>) -> bool {
    matches!(batch.operation, Operation::Check | Operation::Spend) || batch.members.is_empty()
}

/// The error for a limit that refuses while the store does not answer.
#[derive(Debug, Error)]
#[error("the store does not answer, and a limit refuses requests that it cannot count")]
struct RefusedByLimit;

/// The error for a store that is not asked because its breaker is open.
#[derive(Debug, Error)]
#[error("the store has failed before and is not asked until it is probed again: retry later")]
struct CircuitOpen;

/// The error for a store that is not asked because too many decisions wait for it.
#[derive(Debug, Error)]
#[error("too many decisions are waiting for the store: retry later, or raise `max_in_flight`")]
struct TooManyInFlight;
