//! A backend around another backend that can fail or be slow.

mod breaker;
mod breakers;
mod circuit;
mod debts;
mod fallback;
mod learn;
mod learnt_units;
mod local;
mod order;
mod owed;
mod payback;
mod reserved;
mod seen_buffer;
mod settings;
mod settled;
mod undecidable_log;
mod undecided;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use thiserror::Error;
use tokio::time::Instant;

use self::{
    breakers::{Breakers, Passes},
    fallback::{Fallback, may_be_local},
    local::{DEFAULT_DEBTS, Local, LocalShare},
    order::Watching,
    payback::Payer,
    undecidable_log::UndecidableLog,
    undecided::UndecidedBatch,
};
use super::{
    Backend, BackendError, Deciding, MaybeReady, MemoryBackend, StackPart, Stats, UnsupportedLimit,
    Wrapper,
    maybe_ready::{DecidedOutcome, Either, MapInPlace, within},
    one_task::OneTask,
    slot::Slots,
};
use crate::{
    decision::{Outcome, Source},
    transaction::{Algorithm, Batch},
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
/// let backend = FailurePolicy::new(DenyCache::new(redis)).fleet(4);
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
/// - At most [`max_in_flight`](Self::max_in_flight) requests ask the store at the same time. Others wait for their turn, in
///   order of arrival and within the deadline. At most four times as many wait, and the policy decides any further request
///   at once. A request is denied at once if its bucket would be used up by the requests that are still undecided.
/// - A local decision counts the requests of the same bucket that the store has yet to decide as **spent**. So a client
///   gains nothing by sending more requests at once than the store can decide in time.
/// - With [`OnFailure::Local`], a bounded memory in this process decides. It follows the decisions of the store, so
///   that no client gets a new burst because the store has failed, and each process of a [fleet](Self::fleet) can have
///   a share of each limit. [`OnFailure::Allow`] admits requests, as far as this limit is concerned. [`OnFailure::Refuse`]
///   makes them errors.
/// - A bucket that the store **cannot decide**, because another program has written its key, is decided by the policy as
///   well. Only its own requests are affected, and no breaker counts them. A line in the log names the key and says what
///   to do, once in ten minutes. A [reset](crate::Limiter::reset) removes such a value.
/// - In a **batch**, one limit that refuses makes the whole batch an error. Otherwise the limits with local decisions
///   decide, and those that allow are left out.
/// - **Refunds and resets** that do not reach the store are errors ([`BackendError::Unavailable`],
///   [`BackendError::NotDone`] or [`BackendError::Moving`]), whatever the limit says. They change nothing in this
///   process, because a process cannot refund the store's charges.
///
/// When a process starts to decide without the store, it logs one line with the reason: a failure, a missed deadline, a
/// replica that refuses to write, or too many requests in flight. It logs another one when the store decides again. For a
/// flapping server, it logs both at most every ten seconds. [`Stats::is_open`] shows the same.
///
/// During an outage, each process can admit a client up to its share of the burst, minus the charges that it has seen,
/// plus its share of the rate. A second outage does not renew that. After the outage, the store is charged for the
/// local decisions, for as many buckets as [`pay_back`](Self::pay_back) says.
///
/// [`OnFailure::Local`]: crate::transaction::OnFailure::Local
/// [`OnFailure::Allow`]: crate::transaction::OnFailure::Allow
/// [`OnFailure::Refuse`]: crate::transaction::OnFailure::Refuse
#[derive(Debug)]
pub struct FailurePolicy<B> {
    inner: Arc<B>,
    fallback: Fallback,
    breakers: Arc<Breakers>,
    payback: OneTask,
    deadline: Duration,
    in_flight: Slots,
    undecidable: UndecidableLog,
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
        Self {
            inner: Arc::new(inner),
            fallback: Fallback::new(Local::new(MemoryBackend::new(), LocalShare::WHOLE)),
            breakers: Arc::new(Breakers::new(
                Self::DEFAULT_FAILURES_IN_A_ROW,
                Self::DEFAULT_DEADLINE,
            )),
            payback: OneTask::default(),
            deadline: Self::DEFAULT_DEADLINE,
            in_flight: Slots::new(Self::DEFAULT_MAX_IN_FLIGHT),
            undecidable: UndecidableLog::default(),
        }
    }

    /// Returns the store itself. The pointer to it also implements `Backend`.
    fn store(&self) -> &B {
        &self.inner
    }

    fn local(&self) -> &Local {
        &self.fallback.local
    }

    fn payer(&self) -> Payer<B> {
        Payer {
            store: Arc::downgrade(&self.inner),
            local: self.local().clone(),
            breakers: Arc::clone(&self.breakers),
            deadline: self.deadline,
        }
    }

    /// Decides a batch as soon as one of the decisions in flight has ended, if that is before the deadline. The store is
    /// asked only then, because `deciding` has not been polled before.
    #[cold]
    fn queue<'a>(
        &'a self,
        batch: &'a Batch<'a>,
        deciding: impl Future<Output = DecidedOutcome> + Send + 'a,
        passes: Passes<'a>,
        watching: Option<Watching<'a>>,
    ) -> MaybeReady<Deciding<'a>> {
        if let Some(denied) = self.fallback.denial(batch, None).transpose() {
            self.pass_over(batch, &TooManyInFlight);
            return MaybeReady::Ready(denied);
        }
        MaybeReady::Waits(Box::pin(async move {
            let undecided = self.fallback.undecided.begin(batch);
            let begun = Instant::now();
            let slot = self.in_flight.wait(self.deadline).await;
            let left = self.deadline.saturating_sub(begun.elapsed());
            let Some(_slot) = slot.filter(|_| !left.is_zero()) else {
                drop(passes);
                return self.too_many_in_flight(batch, Some(undecided));
            };
            let mut decided = within(Some(left), deciding).await;
            passes.ended(&decided);
            self.follow(batch, &mut decided, Some(undecided));
            drop(watching);
            decided
        }))
    }

    fn too_many_in_flight(
        &self,
        batch: &Batch<'_>,
        undecided: Option<UndecidedBatch<'_>>,
    ) -> Result<Outcome, BackendError> {
        self.pass_over(batch, &TooManyInFlight);
        self.unasked(batch, BackendError::not_done(TooManyInFlight), undecided)
    }

    /// Records a decision for which the store was not asked, though it may answer.
    fn pass_over(&self, batch: &Batch<'_>, reason: &dyn fmt::Display) {
        self.breakers
            .passed_over(self.store().servers(), batch, reason);
    }

    /// Learns from the store's outcome, or replaces its error by the decision without it.
    fn follow(
        &self,
        batch: &Batch<'_>,
        decided: &mut Result<Outcome, BackendError>,
        undecided: Option<UndecidedBatch<'_>>,
    ) {
        match decided {
            Ok(outcome) => {
                // A cached denial was already learnt when the store answered.
                if outcome.source() == Source::Store {
                    self.local().learn(batch, outcome);
                    if !self.local().debts().is_empty() {
                        self.payback.begin(|| self.payer().run());
                    }
                }
            }
            Err(BackendError::InvalidNow(_)) => {}
            Err(error) => {
                if let BackendError::Undecidable(reason) = error
                    && may_be_local(batch)
                {
                    self.undecidable.write(&**reason);
                }
                let certain = !matches!(error, BackendError::Unavailable(_));
                if let Some(instead) = self.instead(batch, certain, undecided) {
                    *decided = instead;
                }
            }
        }
    }

    /// Decides without asking the store.
    fn unasked(
        &self,
        batch: &Batch<'_>,
        error: BackendError,
        undecided: Option<UndecidedBatch<'_>>,
    ) -> Result<Outcome, BackendError> {
        self.instead(batch, true, undecided).unwrap_or(Err(error))
    }

    /// Returns the local decision or, if there can be none, the error for an invalid time. Returns `None` if neither
    /// replaces the error of the store.
    fn instead(
        &self,
        batch: &Batch<'_>,
        certain: bool,
        undecided: Option<UndecidedBatch<'_>>,
    ) -> Option<Result<Outcome, BackendError>> {
        if may_be_local(batch) {
            return Some(self.fallback.decide(batch, certain, undecided));
        }
        let invalid = batch.now?.validate().err()?;
        Some(Err(invalid.into()))
    }
}

#[async_trait]
impl<B: Backend> Backend for FailurePolicy<B> {
    async fn apply(&self, batch: &Batch<'_>) -> DecidedOutcome {
        self.ask(batch, None).decided().await
    }

    fn try_apply(&self, batch: &Batch<'_>) -> Option<DecidedOutcome> {
        self.ask(batch, None).ready()
    }

    fn wrapped(&self) -> Option<&dyn Backend> {
        Some(self.store())
    }

    /// Asks the store, unless a breaker is open. Only a store that has to be waited for counts as asked. The policy has a
    /// deadline of its own.
    #[inline(always)]
    fn ask<'a>(
        &'a self,
        batch: &'a Batch<'a>,
        _: Option<Duration>,
    ) -> MaybeReady<impl Future<Output = DecidedOutcome> + Send + 'a> {
        if let Some(refunded) = self.local().refund(batch) {
            return MaybeReady::Ready(refunded);
        }
        if self.in_flight.are_none() {
            return MaybeReady::Ready(self.too_many_in_flight(batch, None));
        }
        let Some(passes) = self.breakers.admit(self.store().servers(), batch) else {
            let error = BackendError::not_done(CircuitOpen);
            return MaybeReady::Ready(self.unasked(batch, error, None));
        };
        // Before the store decides, so that no answer to a later charge is learnt unordered.
        let watching = self.local().order.watch(batch, self.deadline);
        let deciding = match self.store().ask(batch, Some(self.deadline)) {
            MaybeReady::Ready(mut decided) => {
                self.follow(batch, &mut decided, None);
                return MaybeReady::Ready(decided);
            }
            MaybeReady::Waits(deciding) => deciding,
        };
        let Some(slot) = self.in_flight.take() else {
            let queued = self.queue(batch, deciding, passes, watching);
            return queued.map(|deciding| Either::Second { deciding });
        };
        let begin = move || {
            let undecided = self.fallback.undecided.begin(batch);
            move |decided: &mut DecidedOutcome| {
                passes.ended(decided);
                drop(slot);
                self.follow(batch, decided, Some(undecided));
                drop(watching);
            }
        };
        MaybeReady::Waits(Either::First {
            deciding: MapInPlace::new(deciding, begin),
        })
    }

    fn as_stack_part(&self) -> Option<StackPart<'_>> {
        Some(StackPart(self))
    }

    /// Pays the debts to the store, if it answers, and closes it.
    async fn close(&self) -> Result<(), BackendError> {
        self.payer().round().await;
        self.store().close().await
    }

    /// The memory for local decisions must have room as well.
    fn admits(&self, algorithm: &Algorithm) -> Result<(), UnsupportedLimit> {
        self.store().admits(algorithm)?;
        self.local().admits(algorithm)
    }

    fn stats(&self) -> Stats {
        let (inner, local) = (self.store().stats(), self.local().stats());
        Stats {
            buckets: inner.buckets.or(local.buckets),
            max_buckets: inner.max_buckets.or(local.max_buckets),
            evictions: inner.evictions.or(local.evictions),
            is_open: Some(self.breakers.are_shown(self.store().servers())),
        }
    }
}

impl<B: Backend> Wrapper for FailurePolicy<B> {
    fn ask_boxed<'a>(&'a self, batch: &'a Batch<'a>) -> MaybeReady<Deciding<'a>> {
        self.ask(batch, None).boxed()
    }
}

/// The error for a store that is not asked because its breaker is open.
#[derive(Debug, Error)]
#[error("the store has failed before and is not asked until it is probed again: retry later")]
struct CircuitOpen;

/// The error for a store that is not asked because too many decisions wait for it.
#[derive(Debug, Error)]
#[error("too many decisions are waiting for the store: retry later, or raise `max_in_flight`")]
struct TooManyInFlight;
