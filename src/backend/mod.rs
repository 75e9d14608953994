//! Backends, which keep the state: the [`Backend`] trait and its implementations.
//!
//! [`MemoryBackend`] keeps buckets in this process, and `RedisBackend` in Redis. [`DenyCache`], `Lease` and
//! `FailurePolicy` wrap another backend.
//!
//! [`custom`] shows how to write a backend of your own.

#[cfg(feature = "failure-policy")]
mod breaker;
pub mod custom;
mod decide;
mod deny_cache;
#[cfg(feature = "failure-policy")]
mod failure;
#[cfg(feature = "failure-policy")]
mod lease;
mod memory;
#[cfg(feature = "redis")]
pub mod redis;

use std::{error::Error as StdError, fmt, sync::Arc};

pub use async_trait::async_trait;
use thiserror::Error;

#[cfg(feature = "redis")]
pub use self::redis::RedisBackend;
pub use self::{deny_cache::DenyCache, memory::MemoryBackend};
#[cfg(feature = "failure-policy")]
pub use self::{failure::FailurePolicy, lease::Lease};
pub use crate::transaction::stats::Stats;
use crate::{
    algorithm::LimitError,
    batch::{Batch, Member},
    clock::Timestamp,
    decision::{Answer, Outcome, Source},
    message::debug_is_message,
};

/// Keeps buckets, and decides batches. The page for [authors of backends](custom) has an example.
///
/// # Contract
///
/// - **Atomic.** Reading the state of all members, deciding the batch and storing the changes is one step. No other
///   batch sees or changes these buckets in between, and a batch is stored completely or not at all. A backend that
///   reads and writes in two steps admits an extra request for each concurrent one.
/// - **Exact.** The answers equal those of [`Batch::decide`]. A missing bucket counts as full. Full buckets can be forgotten, and
///   others only at a documented bound.
/// - **Order.** Answers are in the order of the batch's members.
/// - **Clock.** The time is [`Batch::now`] if it is set. Otherwise it is the backend's own clock, read once for the
///   whole batch.
/// - **Cancellation.** The future can be dropped at any await point. Changes that were sent may still be stored, but
///   never half a batch. The future must not block, panic or wait forever.
/// - **Sharing.** A backend is used from many threads and by several limiters at once. It is not cloned: [`Arc`]
///   implements the trait for any backend.
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot keep rate limit buckets",
    label = "not a `Backend`",
    note = "`MemoryBackend` is one; see `tollgate::backend::custom` for how to write another"
)]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Decides a batch and stores the changes, in one atomic step.
    ///
    /// # Errors
    ///
    /// If the batch could not be decided. Nothing is stored then, except possibly after
    /// [`BackendError::Unavailable`]. A backend that has certainly stored nothing returns [`BackendError::NotDone`].
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError>;

    /// Like [`apply`](Self::apply), but never waits. Returns `None`, without any change, if it would have to. The answers are
    /// written to a slice with one element for each member.
    ///
    /// A backend that can answer at once implements this, which saves its callers a boxed future.
    fn try_apply(
        &self,
        batch: &Batch<'_>,
        answers: &mut [Answer],
    ) -> Option<Result<Source, BackendError>> {
        let _ = (batch, answers);
        None
    }

    /// Returns the backend that this one wraps, if it is a wrapper.
    ///
    /// A wrapper implements [`apply`](Self::apply), this method and, for speed, [`try_apply`](Self::try_apply), without which
    /// `apply` is called. All other methods ask the backend that it wraps.
    fn wrapped(&self) -> Option<&dyn Backend> {
        None
    }

    /// Checks whether the backend can keep buckets like that of a member.
    ///
    /// A [`Limiter`](crate::Limiter) calls this for each limit and new override, with a member without an id, when it is built
    /// and when it is reloaded; and for each transaction that brings a limit.
    ///
    /// # Errors
    ///
    /// If they do not fit, with the reason and the remedy. By default, everything fits.
    fn admits(&self, member: &Member<'_>) -> Result<(), LimitError> {
        self.wrapped()
            .map_or(Ok(()), |backend| backend.admits(member))
    }

    /// Gives units back that were charged ahead, before the process ends. The backend can still decide after that.
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

    /// Figures for gauges.
    fn stats(&self) -> Stats {
        self.wrapped()
            .map_or_else(Stats::default, |backend| backend.stats())
    }
}

#[async_trait]
impl<B: Backend + ?Sized> Backend for Arc<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        (**self).apply(batch).await
    }

    fn try_apply(
        &self,
        batch: &Batch<'_>,
        answers: &mut [Answer],
    ) -> Option<Result<Source, BackendError>> {
        (**self).try_apply(batch, answers)
    }

    fn wrapped(&self) -> Option<&dyn Backend> {
        (**self).wrapped()
    }

    fn admits(&self, member: &Member<'_>) -> Result<(), LimitError> {
        (**self).admits(member)
    }

    async fn close(&self) -> Result<(), BackendError> {
        (**self).close().await
    }

    fn stats(&self) -> Stats {
        (**self).stats()
    }
}

/// The error for a batch that a backend did not decide. The page for [authors](custom) has an example.
#[derive(Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The time of the decision is at or beyond [`Timestamp::END`].
    #[error(
        "the instant {} us is at or beyond 2^52 us after the Unix epoch (the year 2112): check the clock, and that it counts in microseconds",
        .0.as_micros()
    )]
    InvalidNow(Timestamp),
    /// The store did not answer, or not with a valid answer. It may have made the change.
    #[error("the rate limit store is unavailable")]
    Unavailable(#[source] Box<dyn StdError + Send + Sync>),
    /// The store could not be reached, or has refused the batch. It has changed nothing.
    #[error("the rate limit store is unavailable, and nothing was charged")]
    NotDone(#[source] Box<dyn StdError + Send + Sync>),
    /// The store answers, but cannot decide this batch, for a reason that concerns no other batch: a stored value is not a
    /// bucket, or the batch is too large. Nothing was charged. A circuit breaker does not count this as a failure.
    #[error("the rate limit store cannot decide these buckets, and nothing was charged")]
    Undecidable(#[source] Box<dyn StdError + Send + Sync>),
    /// A cost can never pass, because it is above the part of the limit that leases leave to the store. Nothing was charged.
    #[error(
        "a cost is above {most}, the most that leases leave of the limit: lower the cost or the lease"
    )]
    TooCostly {
        /// The index of the member.
        member: usize,
        /// The most that can pass at once.
        most: u32,
    },
    /// A debit does not fit into its window, which remembers at most 4096 units. Nothing was charged.
    #[error(
        "a debit has no room in its window, which remembers at most 4096 units: lower it, or use a quota"
    )]
    NoRoom {
        /// The index of the member.
        member: usize,
    },
}

debug_is_message!(BackendError);

impl BackendError {
    /// Creates the error for a store that did not answer.
    pub fn unavailable(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Unavailable(source.into())
    }

    /// Creates the error for a store that has changed nothing.
    pub fn not_done(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::NotDone(source.into())
    }

    /// Creates the error for a store that answers, but cannot decide these buckets.
    pub fn undecidable(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Undecidable(source.into())
    }
}

#[cfg(all(test, feature = "failure-policy"))]
mod tests {
    use super::*;
    use crate::{limit::Limits, transaction::Mode};

    /// A backend that differs from the defaults in everything.
    #[derive(Debug)]
    struct Inner;

    #[async_trait]
    impl Backend for Inner {
        async fn apply(&self, _: &Batch<'_>) -> Result<Outcome, BackendError> {
            Err(BackendError::not_done("closed"))
        }

        fn admits(&self, _: &Member<'_>) -> Result<(), LimitError> {
            Err(LimitError::new("too large"))
        }

        async fn close(&self) -> Result<(), BackendError> {
            Err(BackendError::not_done("closed"))
        }

        fn stats(&self) -> Stats {
            Stats {
                buckets: Some(3),
                is_open: Some(true),
                ..Stats::default()
            }
        }
    }

    #[tokio::test]
    async fn wrappers_ask_the_backend_that_they_wrap() {
        let limits = Limits::builder().limit("a", crate::Limit::per_second(1));
        let limits = limits.build().unwrap();
        let member = Member::new(limits.get("a").unwrap(), "x", 1, Mode::CheckAndSpend);
        let wrappers: [Box<dyn Backend>; 4] = [
            Box::new(Arc::new(DenyCache::new(Inner))),
            Box::new(DenyCache::new(Arc::new(Inner))),
            Box::new(FailurePolicy::new(Inner)),
            Box::new(Lease::new(Inner, 1)),
        ];
        for wrapper in wrappers {
            assert!(wrapper.wrapped().is_some(), "{wrapper:?}");
            assert!(wrapper.admits(&member).is_err(), "{wrapper:?}");
            assert!(wrapper.close().await.is_err(), "{wrapper:?}");
            assert_eq!(wrapper.stats(), Inner.stats(), "{wrapper:?}");
        }
    }
}
