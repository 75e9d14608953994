//! A wrapper around a backend that can fail or be slow.

mod local;

use std::{error::Error as StdError, future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use thiserror::Error;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};

use self::local::LocalDecider;
use super::{
    Backend, BackendError, MemoryBackend, Stats,
    breaker::{Attempt, Breaker},
};
use crate::{
    algorithm::{LimitError, Share},
    batch::{Batch, Member, OwnedBatch},
    decision::{Answer, Outcome, Source},
    metrics,
    outage_log::{LogThrottle, OutageLog},
    task::{detached, runtime_with_timer},
    transaction::{OnFailure, Operation},
};

/// Bounds the damage of a failing store. Each decision has a deadline, a store that keeps failing is only probed, and each limit
/// has a policy for the time without the store.
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
/// - **Deadline.** It covers connecting, waiting and all round trips. At most 4096 decisions ask the store at once, and others
///   wait for their turn until their deadline.
/// - **Circuit breaker.** After five failures in a row, the store is only probed, by one decision at a time. Decisions that were
///   under way together fail as one. A
///   [`RedisBackend`](crate::RedisBackend) has one for each server.
/// - **Local decisions.** When the store does not decide, a memory in this process does, with the share that the process has of
///   each limit. Nothing else changes the buckets of this memory. What they admit is never charged to the store.
/// - **Batches.** If one limit [refuses](OnFailure::Refuse), the batch is an error. Otherwise the limits with
///   [local](OnFailure::Local) decisions decide, and those that [allow](OnFailure::Allow) are left out.
/// - **Refunds and renewals** go to the one that made the charge, the store or this process: the receipt says which. Without the
///   store, its refunds and renewals, and all resets, are errors. The deadline does not apply to refunds of permits, which the
///   limiter repeats until they are done or the hold has passed.
///
/// It needs a tokio runtime with a timer. Without one, decisions of the store are errors.
///
/// In any interval, a client gets at most twice its limit, with shares rounded up, whatever fails. The
/// [guide](crate::guide::failures) has an example.
#[derive(Debug)]
pub struct FailurePolicy<B> {
    store: Arc<B>,
    local: LocalDecider,
    deadline: Duration,
    /// Seats of decisions that ask the store.
    seats: Arc<Semaphore>,
    /// `None` for a store that has a breaker of its own.
    breaker: Option<Breaker>,
    outages: OutageLog,
    undecidable: LogThrottle,
}

/// The most decisions that ask the store at once.
const SEATS: usize = 4096;

/// How long a refund of permits can take. The limiter repeats one that has failed.
const LONGEST_REFUND: Duration = Duration::from_secs(1);

impl<B: Backend> FailurePolicy<B> {
    /// Wraps a store. While it does not answer within 50 ms, each process decides with the whole of each limit.
    #[must_use]
    pub fn new(store: B) -> Self {
        Self {
            breaker: store.stats().is_open.is_none().then(Breaker::default),
            store: Arc::new(store),
            local: LocalDecider::default(),
            deadline: Duration::from_millis(50),
            seats: Arc::new(Semaphore::new(SEATS)),
            outages: OutageLog::default(),
            undecidable: LogThrottle::default(),
        }
    }

    /// Sets how long a decision can take. The default is 50 ms.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets what happens to limits that have no [policy of their own](crate::limit::LimitName::on_failure). The default is
    /// [`OnFailure::Local`].
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.local.on_failure = on_failure;
        self
    }

    /// Sets the most processes that run at once, during a rolling deployment too. Each of them decides with an equal share of
    /// each limit: with four, a quarter of the burst, rounded up, and of the rate. A cost above that is denied. The default is
    /// 1.
    ///
    /// # Panics
    ///
    /// If it is 0.
    #[must_use]
    #[track_caller]
    pub fn fleet(mut self, processes: u32) -> Self {
        self.local.share = Share::of_fleet(processes);
        self
    }

    /// Sets the memory for local decisions. The default is [`MemoryBackend::new`].
    #[must_use]
    pub fn memory(mut self, memory: MemoryBackend) -> Self {
        self.local.memory = memory;
        self
    }

    /// Decides a batch by the store, or without it.
    async fn decide(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        // A missing runtime is a mistake in the program, not an outage.
        runtime_with_timer().map_err(BackendError::not_done)?;
        let asked = match &self.breaker {
            None => self.ask(batch, None).await,
            Some(breaker) => match breaker.attempt() {
                Some(attempt) => self.ask(batch, Some(attempt)).await,
                None => Err(BackendError::not_done(CircuitOpen)),
            },
        };
        match asked {
            Ok(outcome) => {
                self.decided_by(outcome.source);
                Ok(outcome)
            }
            Err(error) => self.decide_without(batch, error),
        }
    }

    /// Asks the store, within the deadline.
    async fn ask(
        &self,
        batch: &Batch<'_>,
        attempt: Option<Attempt>,
    ) -> Result<Outcome, BackendError> {
        if gives_back_permits(batch) {
            // No request waits for this refund. It has a longer deadline, so that permits of ended work come back even if the store
            // is slow.
            return within(LONGEST_REFUND, self.store.apply(batch)).await;
        }
        let (seat, deadline) = self.seat().await?;
        let Some(attempt) = attempt else {
            return within(deadline, self.store.apply(batch)).await;
        };
        let store = Arc::clone(&self.store);
        let batch = OwnedBatch::from(batch);
        // Runs in a task, so that the breaker also learns of a store that hangs if all clients leave early.
        detached(async move {
            let members = batch.members();
            let asked = within(deadline, store.apply(&batch.of(&members))).await;
            drop(seat);
            match &asked {
                // An answer from a cache or a lease says nothing about the store.
                Ok(outcome) if outcome.source != Source::Store => {}
                Err(error) if outage(error).is_some() => attempt.failed(),
                Ok(_) | Err(_) => attempt.succeeded(),
            }
            asked
        })
        .await
    }

    /// Waits for a seat, and returns it with what is left of the deadline.
    async fn seat(&self) -> Result<(OwnedSemaphorePermit, Duration), BackendError> {
        // Taken without a future, because tokio's cooperative budget could make a future wait although a seat is free.
        if let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() {
            return Ok((seat, self.deadline));
        }
        let begun = Instant::now();
        let seat = timeout(self.deadline, Arc::clone(&self.seats).acquire_owned()).await;
        let left = self.deadline.saturating_sub(begun.elapsed());
        match seat {
            Ok(Ok(seat)) if !left.is_zero() => Ok((seat, left)),
            _ => Err(BackendError::not_done(TooManyInFlight)),
        }
    }

    #[inline]
    fn decided_by(&self, source: Source) {
        if source == Source::Store && self.outages.succeeded() {
            metrics::circuit_is("closed");
            tracing::info!("the rate limit store answers again");
        }
    }

    /// Decides a batch that the store has not decided because of this error.
    #[cold]
    fn decide_without(
        &self,
        batch: &Batch<'_>,
        error: BackendError,
    ) -> Result<Outcome, BackendError> {
        if let Some(error) = outage(&error) {
            if self.outages.failed() {
                metrics::circuit_is("open");
                tracing::warn!(%error, "the rate limit store does not answer: deciding without it");
            }
        } else if let BackendError::Undecidable(error) = &error {
            if self.undecidable.is_due() {
                tracing::warn!(%error, "the rate limit store cannot decide a bucket: deciding without it");
            }
        } else {
            return Err(error);
        }
        let may_be_charged = matches!(error, BackendError::Unavailable(_));
        let outcome = self.local.decide_instead(batch, error)?;
        Ok(Outcome {
            may_be_charged,
            ..outcome
        })
    }

    /// Refunds or renews members of which some were decided by this process alone. The store goes first, and ignores those. So if
    /// it fails, nothing was given back here either.
    async fn give_back(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut outcome = if batch.members.iter().all(|member| member.role.is_local) {
            Outcome::unanswered(batch).by(Source::Local)
        } else {
            self.decide(batch).await?
        };
        self.local
            .decide(batch, |member| member.role.is_local, &mut outcome.answers)?;
        Ok(outcome)
    }
}

#[async_trait]
impl<B: Backend> Backend for FailurePolicy<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        if batch.members.iter().any(|member| member.role.is_local) {
            self.give_back(batch).await
        } else {
            self.decide(batch).await
        }
    }

    #[inline]
    fn try_apply(
        &self,
        batch: &Batch<'_>,
        answers: &mut [Answer],
    ) -> Option<Result<Source, BackendError>> {
        if batch.members.iter().any(|member| member.role.is_local) {
            return None;
        }
        let error = match (self.store.try_apply(batch, answers), &self.breaker) {
            (Some(Ok(source)), _) => {
                self.decided_by(source);
                return Some(Ok(source));
            }
            (Some(Err(error)), _) => error,
            // The attempt is dropped at once, which changes nothing.
            (None, Some(breaker)) if breaker.attempt().is_none() => {
                BackendError::not_done(CircuitOpen)
            }
            (None, _) => return None,
        };
        Some(self.decide_without(batch, error).map(|outcome| {
            answers.copy_from_slice(&outcome.answers);
            outcome.source
        }))
    }

    fn wrapped(&self) -> Option<&dyn Backend> {
        Some(&*self.store)
    }

    /// The memory for local decisions must have room as well.
    fn admits(&self, member: &Member<'_>) -> Result<(), LimitError> {
        self.store.admits(member)?;
        self.local.admits(member)
    }

    fn stats(&self) -> Stats {
        let stats = self.store.stats();
        let breaker = self.breaker.as_ref();
        let is_open = breaker.map_or(stats.is_open == Some(true), Breaker::is_open);
        let of_buckets = match stats.buckets {
            Some(_) => stats,
            None => self.local.memory.stats(),
        };
        Stats {
            is_open: Some(is_open || self.outages.is_out()),
            ..of_buckets
        }
    }
}

fn gives_back_permits(batch: &Batch<'_>) -> bool {
    let mut members = batch.members.iter();
    batch.operation == Operation::Refund
        && members.all(|member| member.algorithm().hold().is_some())
}

/// Returns the cause of an error of the store. An error that concerns only the batch has none.
fn outage(error: &BackendError) -> Option<&(dyn StdError + Send + Sync)> {
    match error {
        BackendError::Unavailable(source) | BackendError::NotDone(source) => Some(&**source),
        _ => None,
    }
}

async fn within(
    deadline: Duration,
    asking: impl Future<Output = Result<Outcome, BackendError>>,
) -> Result<Outcome, BackendError> {
    match timeout(deadline, asking).await {
        Ok(asked) => asked,
        Err(_) => Err(BackendError::unavailable(DeadlineExceeded)),
    }
}

/// The error for a store that has not answered in time.
#[derive(Debug, Error)]
#[error("it has not answered within the deadline of the failure policy")]
struct DeadlineExceeded;

/// The error for a store that is not asked because its breaker is open.
#[derive(Debug, Error)]
#[error("it has failed repeatedly, and is not asked until it is probed again")]
struct CircuitOpen;

/// The error for a store that is not asked because too many decisions wait for it.
#[derive(Debug, Error)]
#[error("{SEATS} decisions are waiting for it already")]
struct TooManyInFlight;
