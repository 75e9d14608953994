//! A wrapper that charges units of its backend ahead, and hands them out from memory.

mod background;
mod pool;

use std::{iter::zip, sync::Arc, task::Poll};

use async_trait::async_trait;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::{sync::Semaphore, task::JoinHandle};

use self::{background::SEATS, pool::Pool};
use super::{Backend, BackendError};
use crate::{
    algorithm::{Algorithm, LeaseShare, LimitError, Verb},
    batch::{Batch, Member},
    decision::{Answer, Outcome, Source},
    limit::Limit,
    task::begin,
    transaction::Operation,
};

/// Charges busy buckets ahead, and decides most of their requests from memory.
///
/// It applies to GCRA limits with [`LimitName::lease`](crate::limit::LimitName::lease), or `lease: 5%` in a file:
///
/// ```no_run
/// # #[cfg(feature = "redis")]
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate::{
///     Limit, Limiter, Limits, RedisBackend,
///     backend::{DenyCache, FailurePolicy, Lease},
///     limit::LimitName,
/// };
///
/// let name = LimitName::from("requests").lease(1, 20);
/// let limits = Limits::builder().limit(name, Limit::per_second(10_000)).build()?;
/// let redis = RedisBackend::new("redis://127.0.0.1:6379")?;
/// // Eight processes at most, those included that a deploy replaces.
/// let backend = FailurePolicy::new(Lease::new(DenyCache::new(redis), 8)).fleet(8);
/// let limiter = Limiter::new(limits, backend);
/// # Ok(()) }
/// ```
///
/// - **Exact.** The burst is split: each process holds at most its part of it, and the store decides with what is left. The
///   [guide](crate::guide::leases) says why the fleet never admits more than the limit, and what leases cost.
/// - **Charges.** From the second request for a bucket within two seconds on, a request also charges as many units ahead as the
///   process may hold. The store decides until they have arrived, and whenever they do not suffice.
/// - **Returns.** Units that are not used for two seconds go back to the store. [`Limiter::close`](crate::Limiter::close) returns
///   all of them, and the store decides everything after that. Units of a process that dies stay charged.
/// - **Batches** are decided from memory if all their members can be.
///
/// For decisions from memory ([`Source::Lease`]), [`Decision::remaining`](crate::Decision::remaining) is the number of units that
/// this process holds. For others, it is what is left in the store's part.
///
/// It needs a tokio runtime, and the limiter must use the store's clock. Otherwise, the store decides everything. All processes
/// need the same limits. Put it inside a [`FailurePolicy`](super::FailurePolicy), and around a [`DenyCache`](super::DenyCache).
#[derive(Debug)]
pub struct Lease<B> {
    shared: Arc<LeaseState<B>>,
    processes: u32,
}

/// The state that requests share with tasks in the background.
#[derive(Debug)]
struct LeaseState<B> {
    store: B,
    pool: Pool,
    /// One seat for each charge that is under way, and one for the sweep. Closed with the lease.
    seats: Arc<Semaphore>,
    /// The task that returns idle units.
    sweep: Mutex<Option<JoinHandle<()>>>,
}

impl<B: Backend> Lease<B> {
    /// Leases from a store. `processes` is the most processes that run at once, during a rolling deployment too.
    ///
    /// # Panics
    ///
    /// If it is 0.
    #[must_use]
    #[track_caller]
    pub fn new(store: B, processes: u32) -> Self {
        assert!(
            processes > 0,
            "a fleet has at least one process: use `Lease::new(store, 1)`"
        );
        Self {
            shared: Arc::new(LeaseState {
                store,
                pool: Pool::default(),
                seats: Arc::new(Semaphore::new(SEATS as usize)),
                sweep: Mutex::default(),
            }),
            processes,
        }
    }

    /// Lets the store decide a batch, and charges ahead for its members.
    async fn ask(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let members = batch.members.iter();
        let splits = members.map(|member| self.split(member, member.limit.lease()?).ok());
        let splits: SmallVec<[Option<SplitLimit>; 4]> = splits.collect();
        let mut members: SmallVec<[Member<'_>; 4]> = batch.members.into();
        for (index, (member, split)) in zip(&mut members, &splits).enumerate() {
            if let Some(split) = split {
                member.by = Some(&split.at_store);
                let most = member.algorithm().capacity();
                if batch.votes(member) && member.ask.cost > most {
                    let member = index;
                    return Err(BackendError::TooCostly { member, most });
                }
            }
        }
        let at_store = Batch::new(batch.operation, &members).at(batch.now);
        let mut asking = self.shared.store.apply(&at_store);
        if let Poll::Ready(decided) = begin(&mut asking) {
            return decided;
        }
        // The request is in the store's queue, and the charge ahead can share its command.
        if batch.operation == Operation::Spend && is_leased(batch) {
            for (member, split) in zip(batch.members, &splits) {
                if let Some(split) = split {
                    self.shared.charge_ahead(member, split);
                }
            }
        }
        asking.await
    }

    /// Splits the limit of a leased member, or says what to change.
    fn split(&self, member: &Member<'_>, share: LeaseShare) -> Result<SplitLimit, LimitError> {
        let algorithm = member.algorithm();
        let (Algorithm::Gcra(gcra), false) = (algorithm, algorithm.has_line()) else {
            return Err(LimitError::new(
                "only limits with burst, count and period, and without `max_wait`, can be leased: remove `lease`",
            ));
        };
        // All processes together hold less than half of the burst, so that ordinary costs fit into the store's part.
        let most = (gcra.burst() - 1) / self.processes.saturating_mul(2);
        let units = share.of(gcra.burst()).min(most);
        match gcra.with_burst(gcra.burst() - units * self.processes) {
            Ok(rest) if units > 0 => Ok(SplitLimit {
                units,
                at_store: Limit::of(Algorithm::Gcra(rest)),
            }),
            _ => Err(LimitError::new(format!(
                "a lease of {share} is less than one unit for each of {} processes: raise the burst or the lease, or remove it",
                self.processes
            ))),
        }
    }
}

/// A limit, split between the processes and the store.
#[derive(Debug)]
struct SplitLimit {
    /// The most units that each process holds.
    units: u32,
    /// The limit by which the store decides. Its burst is the part that no process may hold.
    at_store: Limit,
}

/// Returns whether a batch can be decided from memory if there are enough units. Leases need the store's clock.
fn is_leased(batch: &Batch<'_>) -> bool {
    let mut members = batch.members.iter();
    matches!(batch.operation, Operation::Check | Operation::Spend)
        && batch.now.is_none()
        && members.all(|member| member.limit.lease().is_some() && member.ask.verb == Verb::Spend)
}

#[async_trait]
impl<B: Backend> Backend for Lease<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut outcome = Outcome::unanswered(batch);
        if self.shared.pool.decide(batch, &mut outcome.answers) {
            Ok(outcome.by(Source::Lease))
        } else {
            self.ask(batch).await
        }
    }

    fn try_apply(
        &self,
        batch: &Batch<'_>,
        answers: &mut [Answer],
    ) -> Option<Result<Source, BackendError>> {
        if self.shared.pool.decide(batch, answers) {
            return Some(Ok(Source::Lease));
        }
        let mut members = batch.members.iter();
        if members.any(|member| member.limit.lease().is_some()) {
            None
        } else {
            self.shared.store.try_apply(batch, answers)
        }
    }

    fn wrapped(&self) -> Option<&dyn Backend> {
        Some(&self.shared.store)
    }

    fn admits(&self, member: &Member<'_>) -> Result<(), LimitError> {
        let Some(share) = member.limit.lease() else {
            return self.shared.store.admits(member);
        };
        let split = self.split(member, share)?;
        self.shared.store.admits(&member.by(&split.at_store))
    }

    async fn close(&self) -> Result<(), BackendError> {
        let returned = self.shared.close().await;
        returned.and(self.shared.store.close().await)
    }
}
