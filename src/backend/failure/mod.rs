//! A backend around a backend that may fail, or be slow.

mod breaker;
mod local;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use thiserror::Error;
use tokio::time;

use self::{
    breaker::Breaker,
    local::{Local, Share},
};
use super::{Backend, BackendError, MemoryBackend, NotAdmitted, Stats};
use crate::{
    decision::Outcome,
    metrics,
    transaction::{Algorithm, Batch, Member, OnFailure},
};

/// Bounds what a store's fault can do to a request: it is asked for no longer than a deadline, not at all while
/// it is known not to answer, and each limit says what is decided meanwhile.
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
/// - The **deadline** holds for whatever the store does: connecting, queueing and all round trips. What had not
///   been answered by then is decided by the policy, and may have been charged as well.
/// - A **circuit breaker** opens after failures in a row, and lets one request at a time through to see whether
///   the store is back: after 50 to 100 ms at first, later after up to a second. A master that has become a
///   replica is no failure; its client finds the new one.
/// - No more than [`max_in_flight`](Self::max_in_flight) requests wait for the store; those above are decided by
///   the policy.
/// - **Locally** ([`OnFailure::Local`]), a bounded memory decides. It is kept warm with what the store decides, so that
///   nobody gets a new burst because the store has failed, and it may let each process have a
///   [share](Self::share) of each limit only. [`OnFailure::Allow`] lets pass what has to do with the limit, and
///   [`OnFailure::Refuse`] makes it an error.
/// - In a **batch**, one limit that refuses makes the whole an error; else those that decide locally decide, and
///   those that allow drop out.
///
/// Each transition is logged once: when the breaker opens, and when it closes. Of a store that comes and goes, that is logged
/// every ten seconds.
///
/// While the store is away, a client may be admitted, by each process, its share of the burst less what that process
/// had seen spent, and its share of the rate. What was decided locally is not told to the store
/// afterwards.
#[derive(Debug)]
pub struct FailurePolicy<B> {
    inner: B,
    local: Local,
    breaker: Breaker,
    on_failure: OnFailure,
    deadline: Duration,
    in_flight: AtomicUsize,
    max_in_flight: usize,
}

impl<B: Backend> FailurePolicy<B> {
    /// The default of [`deadline`](Self::deadline).
    pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(50);

    /// The default of [`max_in_flight`](Self::max_in_flight).
    pub const DEFAULT_MAX_IN_FLIGHT: usize = 4096;

    /// The default of [`failures_in_a_row`](Self::failures_in_a_row).
    pub const DEFAULT_FAILURES_IN_A_ROW: u32 = 5;

    /// Decides locally while `inner` does not answer within 50 ms.
    #[must_use]
    pub fn new(inner: B) -> Self {
        Self {
            inner,
            local: Local {
                memory: MemoryBackend::new(),
                share: Share::WHOLE,
            },
            breaker: Breaker::new(Self::DEFAULT_FAILURES_IN_A_ROW),
            on_failure: OnFailure::Local,
            deadline: Self::DEFAULT_DEADLINE,
            in_flight: AtomicUsize::new(0),
            max_in_flight: Self::DEFAULT_MAX_IN_FLIGHT,
        }
    }

    /// Sets how long a decision may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets what is decided of limits that do not
    /// [say so themselves](crate::limit::LimitName::on_failure).
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Sets which part of each limit this process may use up by itself: with four processes, `share(1, 4)`. Of
    /// the burst it is rounded up, and a cost above that is denied.
    ///
    /// # Panics
    ///
    /// If it is nothing, or more than all.
    #[must_use]
    #[track_caller]
    pub fn share(mut self, part: u32, of: u32) -> Self {
        self.local.share = Share::new(part, of);
        self
    }

    /// Sets the memory that decides locally, and by that how many buckets it holds.
    #[must_use]
    pub fn memory(mut self, memory: MemoryBackend) -> Self {
        self.local.memory = memory;
        self
    }

    /// Sets how many decisions may wait for the store.
    #[must_use]
    pub fn max_in_flight(mut self, max_in_flight: usize) -> Self {
        self.max_in_flight = max_in_flight;
        self
    }

    /// Sets after how many failures in a row the store is not asked any more. At least 1.
    #[must_use]
    pub fn failures_in_a_row(mut self, failures: u32) -> Self {
        self.breaker = Breaker::new(failures.max(1));
        self
    }

    /// What is decided without the store.
    fn meanwhile(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let policy = |member: &Member<'_>| match member.on_failure.unwrap_or(self.on_failure) {
            OnFailure::Refuse if member.shadow => OnFailure::Allow,
            on_failure => on_failure,
        };
        if batch
            .members
            .iter()
            .any(|member| policy(member) == OnFailure::Refuse)
        {
            metrics::fell_back("refuse");
            return Err(BackendError::unavailable(Refused));
        }
        let is_local = |member: &Member<'_>| policy(member) == OnFailure::Local;
        let locally = batch.members.iter().any(is_local);
        metrics::fell_back(if locally { "local" } else { "allow" });
        self.local.decide(batch, is_local)
    }

    fn is_full(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) >= self.max_in_flight
    }
}

#[async_trait]
impl<B: Backend> Backend for FailurePolicy<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let Some(_slot) = Slot::take(&self.in_flight, self.max_in_flight) else {
            return self.meanwhile(batch);
        };
        let Some(pass) = self.breaker.admit() else {
            return self.meanwhile(batch);
        };
        match time::timeout(self.deadline, self.inner.apply(batch)).await {
            Ok(Ok(outcome)) => {
                pass.succeeded();
                self.local.learn(batch, &outcome);
                return Ok(outcome);
            }
            Ok(Err(error @ BackendError::InvalidNow(_))) => {
                pass.succeeded();
                return Err(error);
            }
            Ok(Err(BackendError::Moving(_))) => drop(pass),
            Ok(Err(BackendError::Unavailable(error))) => pass.failed(&error),
            Err(_) => pass.failed(&format_args!("no answer within {:?}", self.deadline)),
        }
        self.meanwhile(batch)
    }

    fn try_apply(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        if self.is_full() || !self.breaker.admits() {
            return Some(self.meanwhile(batch));
        }
        match self.inner.try_apply(batch)? {
            Err(BackendError::Unavailable(_) | BackendError::Moving(_)) => {
                Some(self.meanwhile(batch))
            }
            decided => Some(decided),
        }
    }

    /// The memory that decides locally must have room too.
    fn admits(&self, algorithm: &Algorithm) -> Result<(), NotAdmitted> {
        self.inner.admits(algorithm)?;
        self.local.memory.admits(algorithm)
    }

    fn stats(&self) -> Stats {
        let (inner, local) = (self.inner.stats(), self.local.memory.stats());
        Stats {
            buckets: inner.buckets.or(local.buckets),
            evictions: inner.evictions.or(local.evictions),
            is_open: Some(self.breaker.is_open()),
        }
    }
}

/// A place among the decisions that wait.
struct Slot<'a>(&'a AtomicUsize);

impl<'a> Slot<'a> {
    fn take(in_flight: &'a AtomicUsize, max: usize) -> Option<Self> {
        let slot = Self(in_flight);
        (in_flight.fetch_add(1, Ordering::Relaxed) < max).then_some(slot)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The error of a limit that refuses while its store does not answer.
#[derive(Debug, Error)]
#[error("the store does not answer, and a limit refuses what it cannot count")]
struct Refused;
