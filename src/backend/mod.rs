//! Backends, which keep the state: the [`Backend`] trait and its implementations.
//!
//! [`MemoryBackend`] keeps buckets in this process, and `RedisBackend` in Redis. [`DenyCache`], `Lease` and
//! `FailurePolicy` wrap another backend.
//!
//! # A custom backend
//!
//! Load the [`Stored`](crate::decision::Stored) state of each member, let [`Outcome::decide`] judge the batch and
//! update the state, and store it again, all under one lock or in one transaction:
//!
//! ```
//! use std::{collections::HashMap, sync::Mutex};
//!
//! use tollgate::{
//!     Limit, Limiter, Limits, Transaction,
//!     backend::{Backend, BackendError, async_trait},
//!     clock::{Clock, SystemClock},
//!     decision::{Outcome, Stored},
//!     transaction::Batch,
//! };
//!
//! #[derive(Debug, Default)]
//! struct MapBackend {
//!     buckets: Mutex<HashMap<String, Stored>>,
//!     clock: SystemClock,
//! }
//!
//! #[async_trait]
//! impl Backend for MapBackend {
//!     async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
//!         let mut buckets = self.buckets.lock().expect("no decision panics");
//!         let now = batch.now.unwrap_or_else(|| self.clock.now());
//!         let keys: Vec<_> = batch.members.iter().map(|member| member.key.to_string()).collect();
//!         let mut stored: Vec<_> =
//!             keys.iter().map(|key| buckets.remove(key).unwrap_or_default()).collect();
//!         let outcome = Outcome::decide(batch, now, &mut stored);
//!         buckets.extend(keys.into_iter().zip(stored));
//!         Ok(outcome?)
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let limits = Limits::builder().limit("uploads", Limit::per_hour(100).burst(5)).build()?;
//! let limiter = Limiter::new(limits, MapBackend::default());
//! assert!(limiter.spend(&Transaction::new("uploads", "alice")).await?.allowed());
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! - The key of a bucket includes its algorithm: a state that is stored under `member.key.to_string()` is never one of
//!   another algorithm. A store with keys of its own must use all three fields of
//!   [`BucketKey`](crate::transaction::BucketKey).
//! - A store of bytes keeps [`Stored::to_bytes`](crate::decision::Stored::to_bytes), and can remove a bucket at
//!   [`Stored::full_at`](crate::decision::Stored::full_at).
//! - A store whose calls block gets its own thread, and an [`OwnedBatch`](crate::transaction::OwnedBatch) for each
//!   batch. The example `embedded_store` does this, with buckets in a file.
//! - A backend around another backend returns it by [`Backend::wrapped`]. The example `custom_wrapper` remembers denials.
//! - The feature `testing` provides the tests that every backend must pass.

mod deny_cache;
#[cfg(feature = "failure-policy")]
mod failure;
#[cfg(feature = "tokio")]
mod fleet;
#[cfg(feature = "tokio")]
mod lease;
mod lease_share;
#[cfg_attr(
    not(feature = "tokio"),
    expect(dead_code, reason = "without a runtime, nothing leases")
)]
mod leased_limits;
mod maybe_ready;
mod memory;
#[cfg(feature = "tokio")]
mod one_task;
#[cfg(feature = "failure-policy")]
mod per_thread;
#[cfg(feature = "redis")]
pub mod redis;
mod servers;
#[cfg(feature = "tokio")]
mod sharded;
#[cfg(feature = "failure-policy")]
mod slot;
mod stack_part;

use std::{error::Error as StdError, fmt, pin::Pin, sync::Arc, time::Duration};

pub use async_trait::async_trait;
use thiserror::Error;

#[cfg(feature = "failure-policy")]
pub use self::failure::FailurePolicy;
#[cfg(feature = "tokio")]
pub use self::fleet::{EmptyFleet, Fleet};
#[cfg(feature = "tokio")]
pub use self::lease::Lease;
#[cfg(feature = "tokio")]
pub(crate) use self::memory::LinePlace;
pub(crate) use self::memory::MemoryClaim;
#[cfg(feature = "redis")]
pub use self::redis::RedisBackend;
pub use self::{
    deny_cache::DenyCache,
    lease_share::LeaseShare,
    memory::MemoryBackend,
    servers::{ServerId, Servers},
};
pub(crate) use self::{
    leased_limits::{LeasedLimits, LimiterId},
    maybe_ready::MaybeReady,
    stack_part::{ask_boxed, leasing},
};
use self::{
    maybe_ready::DecidedOutcome,
    stack_part::{StackPart, Wrapper},
};
pub use crate::stats::Stats;
use crate::{
    clock::InvalidNow,
    decision::Outcome,
    message::debug_is_message,
    transaction::{Algorithm, Batch},
};

/// Keeps buckets, and decides batches.
///
/// # Contract
///
/// - **Atomic.** Reading the state of all members, deciding the batch and storing the changes is one step. No other
///   batch sees or changes these buckets in between, and a batch is stored completely or not at all. A backend that
///   reads and writes in two steps admits an extra request for each concurrent one.
/// - **Exact.** The answers equal those of [`Outcome::decide`], bit for bit. A missing bucket is a full one
///   ([`Stored::default`](crate::decision::Stored)). Full buckets can be forgotten, and others only at a
///   documented bound.
/// - **Order.** Answers are in the order of the batch's members.
/// - **Clock.** The time is [`Batch::now`] if it is set. Otherwise it is the backend's own clock, read once for the
///   whole batch.
/// - **Cancellation.** The future can be dropped at any await point. Changes that were sent may still be stored, but
///   never half a batch. The future must not block, panic or wait forever.
/// - **Sharing.** A backend is used from many threads and by several limiters at once. It is not cloned: [`Arc`]
///   implements the trait for any backend.
///
/// The [module's documentation](self) has a complete example.
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot keep rate limit buckets",
    label = "not a `Backend`",
    note = "`MemoryBackend` is one; see `tollgate::backend` for how to write another"
)]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Decides a batch and stores the changes, in one atomic step.
    ///
    /// # Errors
    ///
    /// If the batch could not be decided. Nothing is stored then, except possibly after
    /// [`BackendError::Unavailable`]. A backend that has certainly stored nothing returns [`BackendError::NotDone`].
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError>;

    /// Like [`apply`](Self::apply), but never waits. Returns `None`, without any change, if it would have to.
    ///
    /// A backend that never waits implements this, which saves its callers a boxed future.
    fn try_apply(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        let _ = batch;
        None
    }

    /// Returns the backend that this one wraps, if it is a wrapper.
    ///
    /// A wrapper needs only this method and those above: the others ask the backend that it wraps.
    fn wrapped(&self) -> Option<&dyn Backend> {
        None
    }

    /// Checks whether a bucket with this algorithm fits into the backend at all.
    ///
    /// A [`Limiter`](crate::Limiter) calls this for each limit and override, when it is built and when it is
    /// reloaded.
    ///
    /// # Errors
    ///
    /// If it does not fit, with the reason and the remedy. By default, everything fits.
    fn admits(&self, algorithm: &Algorithm) -> Result<(), UnsupportedLimit> {
        self.wrapped()
            .map_or(Ok(()), |backend| backend.admits(algorithm))
    }

    /// Gives back units that were charged ahead, and pays debts, before the process ends. The backend can still decide
    /// after that.
    ///
    /// # Errors
    ///
    /// If the store does not answer. Units that were not given back stay charged.
    async fn close(&self) -> Result<(), BackendError> {
        match self.wrapped() {
            Some(backend) => backend.close().await,
            None => Ok(()),
        }
    }

    /// Returns the servers that decide, if there are several that can fail independently.
    ///
    /// The default is `None`: the backend answers as a whole, or does not.
    fn servers(&self) -> Option<&dyn Servers> {
        self.wrapped()?.servers()
    }

    /// Figures for gauges.
    fn stats(&self) -> Stats {
        self.wrapped()
            .map_or_else(Stats::default, |backend| backend.stats())
    }

    /// Decides a batch at once if that is possible, and otherwise returns the future that decides it, in no box of its own
    /// if the type of the backend is known. After the deadline, if there is one, the decision is an error.
    #[doc(hidden)]
    fn ask<'a>(
        &'a self,
        batch: &'a Batch<'a>,
        deadline: Option<Duration>,
    ) -> MaybeReady<impl Future<Output = DecidedOutcome> + Send + 'a>
    where
        Self: Sized,
    {
        ask_boxed(self, batch).within(deadline)
    }

    /// Returns this backend as a wrapper of this crate, if it is one.
    #[doc(hidden)]
    fn as_stack_part(&self) -> Option<StackPart<'_>> {
        None
    }
}

#[async_trait]
impl<B: Backend + ?Sized> Backend for Arc<B> {
    // Not an `async fn`, which `async_trait` would put into a second box.
    fn apply<'a: 'd, 'b: 'd, 'c: 'd, 'd>(&'a self, batch: &'b Batch<'c>) -> Deciding<'d> {
        (**self).apply(batch)
    }

    fn try_apply(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        (**self).try_apply(batch)
    }

    fn wrapped(&self) -> Option<&dyn Backend> {
        (**self).wrapped()
    }

    fn admits(&self, algorithm: &Algorithm) -> Result<(), UnsupportedLimit> {
        (**self).admits(algorithm)
    }

    async fn close(&self) -> Result<(), BackendError> {
        (**self).close().await
    }

    fn servers(&self) -> Option<&dyn Servers> {
        (**self).servers()
    }

    fn stats(&self) -> Stats {
        (**self).stats()
    }

    fn as_stack_part(&self) -> Option<StackPart<'_>> {
        (**self).as_stack_part()
    }
}

/// The boxed future of [`Backend::apply`].
type Deciding<'a> = Pin<Box<dyn Future<Output = Result<Outcome, BackendError>> + Send + 'a>>;

/// The error for a limit whose buckets a backend cannot keep. Returned by [`Backend::admits`].
/// The [module docs](self) have an example of a backend.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct UnsupportedLimit(Box<str>);

impl UnsupportedLimit {
    /// Creates the error. The reason should say what to change.
    pub fn new(reason: impl Into<Box<str>>) -> Self {
        Self(reason.into())
    }
}

/// The error for a batch that a backend did not decide. The [module docs](self) have an example.
#[derive(Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The time of the decision is out of range.
    #[error(transparent)]
    InvalidNow(#[from] InvalidNow),
    /// The store did not answer, or gave an invalid answer. It may have made the change.
    #[error("the rate limit store is unavailable")]
    Unavailable(#[source] Box<dyn StdError + Send + Sync>),
    /// The store was not reached, or refused. It has changed nothing.
    #[error("the rate limit store is unavailable, and nothing was charged")]
    NotDone(#[source] Box<dyn StdError + Send + Sync>),
    /// The store answers, but cannot decide this batch, for a reason that concerns no other batch: a stored value is not a
    /// bucket, or the batch is too large. Nothing was charged. A circuit breaker does not count this as a failure.
    #[error("the rate limit store cannot decide these buckets, and nothing was charged")]
    Undecidable(#[source] Box<dyn StdError + Send + Sync>),
    /// The store has moved and is being located: a master has become a replica. A circuit breaker does not count this
    /// as a failure.
    #[error("the rate limit store has moved, and is being located")]
    Moving(#[source] Box<dyn StdError + Send + Sync>),
}

debug_is_message!(BackendError);

impl BackendError {
    /// Creates the error for a store that did not answer.
    pub fn unavailable(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Unavailable(source.into())
    }

    /// Creates the error for a store that has done nothing.
    pub fn not_done(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::NotDone(source.into())
    }
}
