//! A backend around another backend that charges ahead and hands out units from memory.

mod bucket;
mod charge;
mod decision_time;
mod leased_member;
mod leased_units;
mod pool;
mod returns;
mod shared;
mod split;
mod supply;
mod terms;

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time;

use self::{
    bucket::LeaseAnswer,
    charge::ChargeAhead,
    decision_time::DecisionTime,
    leased_member::{LeasedMember, SplitBatch, Splits},
    leased_units::Holding,
    shared::Shared,
    terms::{LimitSplit, terms},
};
use super::{
    Backend, BackendError, LeaseTerms, Servers, Stats, UnsupportedLimit, one_task::OneTask,
};
use crate::{
    algorithm::Action,
    clock::Timestamp,
    decision::{Answer, Outcome},
    transaction::{Algorithm, Batch, LeaseShare, Member, Operation},
};

/// Charges the cost of buckets that a process uses heavily ahead, in portions, and decides most requests from memory.
///
/// It applies to limits with [`LimitName::lease`](crate::limit::LimitName::lease), or `lease: 5%` in a file:
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
/// let backend = FailurePolicy::new(Lease::new(DenyCache::new(redis), 8));
/// let limiter = Limiter::new(limits, backend);
/// # Ok(()) }
/// ```
///
/// The [guide](crate::guide::leases) says why the fleet never admits more than the limit, what leases cost, and how much is
/// charged in advance.
///
/// [`Decision::remaining`](crate::Decision::remaining) is the number of units that the process holds if the decision comes
/// from memory ([`Source::Lease`](crate::decision::Source::Lease)). Otherwise it is what the store has left and what the
/// process holds. [`Limiter::close`](crate::Limiter::close) gives everything back.
///
/// It needs a tokio runtime; without one, the store decides everything.
///
/// Put it inside a [`FailurePolicy`](super::FailurePolicy), and around a [`DenyCache`](super::DenyCache).
#[derive(Debug)]
pub struct Lease<B> {
    shared: Arc<Shared<B>>,
    returns: OneTask,
    processes: NonZeroU32,
}

/// The longest that a request waits for another request's charge.
const PATIENCE: Duration = Duration::from_millis(10);

impl<B: Backend> Lease<B> {
    /// Leases from `inner`, in a fleet of at most `processes` processes.
    ///
    /// # Panics
    ///
    /// If `processes` is 0.
    #[must_use]
    #[track_caller]
    pub fn new(inner: B, processes: u32) -> Self {
        assert!(
            processes > 0,
            "a fleet of 0 processes leases nothing: use the largest number that runs at one time"
        );
        Self {
            shared: Arc::new(Shared::new(inner)),
            returns: OneTask::default(),
            processes: NonZeroU32::new(processes).unwrap_or(NonZeroU32::MIN),
        }
    }

    /// The wrapped backend.
    #[must_use]
    pub fn inner(&self) -> &B {
        &self.shared.inner
    }

    /// Starts the task that gives units back, unless it is running. Returns false outside of a runtime.
    fn begin_returns(&self) -> bool {
        let shared = || Arc::downgrade(&self.shared);
        self.returns.begin(|| returns::keep_returning(shared()))
    }

    /// Decides a batch with leased members.
    async fn decide(&self, split: &SplitBatch<'_>) -> Result<Outcome, BackendError> {
        let batch = &split.batch;
        let is_spend = batch.operation == Operation::Spend;
        match split.only() {
            Some(leased) if batch.action(leased.member) == Action::Spend => {
                self.decide_one(batch, leased).await
            }
            None if is_spend && self.begin_returns() => self.decide_split(split).await,
            _ => self.inner().apply(batch).await,
        }
    }

    /// Decides a spend from one leased bucket.
    async fn decide_one(
        &self,
        batch: &Batch<'_>,
        leased: LeasedMember<'_>,
    ) -> Result<Outcome, BackendError> {
        let (shared, member) = (&self.shared, leased.member);
        if !self.begin_returns() {
            return self.inner().apply(batch).await;
        }
        // A request waits for another request's charge only once, which bounds its delay.
        let mut may_wait = true;
        loop {
            let when = shared.decision_time(batch);
            match shared.pool.attempt(when, leased) {
                LeaseAnswer::Taken(left) => return Ok(passed(when, member, left)),
                LeaseAnswer::Charge(ahead) => {
                    let algorithm = member.algorithm.clone();
                    let charging = ChargeAhead::new(shared, member.fingerprint, algorithm, ahead);
                    return charging.decide(batch, member).await;
                }
                LeaseAnswer::Wait(charge) if may_wait => {
                    may_wait = false;
                    let ended = charge.notified();
                    // The charge may have ended between `attempt` and `notified`. Then nothing would wake this request.
                    if shared.pool.is_charging(member.fingerprint) {
                        let _ = time::timeout(PATIENCE, ended).await;
                    }
                }
                LeaseAnswer::Wait(_) | LeaseAnswer::Ask => return self.inner().apply(batch).await,
            }
        }
    }

    /// Decides a batch of one leased member, if memory alone can decide it.
    fn try_memory(&self, batch: &Batch<'_>) -> Option<Outcome> {
        let [member] = batch.members else { return None };
        let split = LimitSplit::of(member, self.processes).filter(|_| member.cost > 0)?;
        let member = Member {
            algorithm: &split.at_store,
            ..*member
        };
        let leased = LeasedMember {
            member: &member,
            most: split.units,
        };
        let (pool, when) = (&self.shared.pool, self.shared.decision_time(batch));
        let held = match batch.action(&member) {
            Action::Spend => pool.take(when, leased),
            Action::Probe => pool.enough(when, &member),
            Action::Refund => pool.take_back(when, &member),
            _ => None,
        };
        let answer = Answer {
            reserved: split.reserved,
            ..held?.answer(&split.at_store, when.now())
        };
        Some(Outcome::of_one(when.now(), answer))
    }
}

/// Returns the outcome of one request that passed without the store.
fn passed(when: DecisionTime, member: &Member<'_>, left: Holding) -> Outcome {
    Outcome::of_one(when.now(), left.answer(member.algorithm, when.now()))
}

#[async_trait]
impl<B: Backend> Backend for Lease<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        if let Some(now) = batch.now {
            now.validate()?;
        }
        if let Some(decided) = self.try_memory(batch) {
            return Ok(decided);
        }
        let Some(splits) = Splits::of(batch, self.processes) else {
            return self.inner().apply(batch).await;
        };
        let members = splits.members(batch);
        let split = splits.batch(batch, &members);
        let sent = self.shared.decision_time(batch);
        let mut outcome = self.decide(&split).await?;
        self.shared.hear(&split.batch, sent, &mut outcome);
        splits.complete(&mut outcome);
        Ok(outcome)
    }

    fn try_apply(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        if batch.members.iter().all(|member| member.lease.is_none()) {
            return self.inner().try_apply(batch);
        }
        match batch.now.map_or(Ok(()), Timestamp::validate) {
            Ok(()) => self.try_memory(batch).map(Ok),
            Err(error) => Some(Err(error.into())),
        }
    }

    fn admits(&self, algorithm: &Algorithm) -> Result<(), UnsupportedLimit> {
        self.inner().admits(algorithm)
    }

    fn lease(
        &self,
        algorithm: &Algorithm,
        share: LeaseShare,
    ) -> Result<Option<LeaseTerms>, UnsupportedLimit> {
        terms(algorithm, share, self.processes).map(Some)
    }

    async fn close(&self) -> Result<(), BackendError> {
        let returned = self.shared.close().await;
        returned.and(self.inner().close().await)
    }

    fn servers(&self) -> Option<&dyn Servers> {
        self.inner().servers()
    }

    fn stats(&self) -> Stats {
        self.inner().stats()
    }
}
