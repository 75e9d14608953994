//! A backend around another backend that charges ahead and hands out units from memory.

mod bucket;
mod charge;
mod moment;
mod pool;
mod returns;
mod shared;
mod split;
mod stock;
mod terms;

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time;

use self::{
    bucket::LeaseAnswer,
    charge::ChargeAhead,
    moment::Moment,
    shared::Shared,
    stock::{Holding, is_leased},
    terms::terms,
};
use super::{
    Backend, BackendError, LeaseTerms, Servers, Stats, UnsupportedLimit, one_task::OneTask,
};
use crate::{
    algorithm::Action,
    clock::Timestamp,
    decision::Outcome,
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
/// # Never more than the limit
///
/// Units that were charged early have already come back at the store when they are spent. So the burst `B` is split:
/// each of at most `P` processes holds at most `p` unspent units, and the store uses a burst of `B − P·p`, for all
/// clients of the limit. Any span `W` then admits at most the units charged in it, `B − P·p + W/T`, plus the units held
/// before it, `P·p`: together the limit. `p` is the leased share of the burst, and at most `(B − 1) / 2P`.
///
/// A quota is split in the same way. A process may spend units that it holds when a period ends in the next period. The
/// store then admits `Q − P·p` of its own, so no period admits more than `Q`.
///
/// The number of processes and the limits have to be the same in the whole fleet. Each process beyond the number may admit
/// `p` too much.
///
/// # What it costs
///
/// - Units that processes hold can be denied to others: at most `P·p`, until they are spent, given back, or replaced
///   with time.
/// - A cost above `B − P·p` is an error, and a rule with such a cost is rejected when it is built.
/// - [`Decision::remaining`](crate::Decision::remaining) is the number of units that the process holds if the decision
///   comes from memory ([`Source::Lease`](crate::decision::Source::Lease)). Otherwise it is what the store has left and
///   what the process holds.
///
/// Clients see the limit's own figures: as `r`, what the store had left when it last answered, what has come back since,
/// and what the process holds; as `q`, the whole burst or quota.
///
/// # How much is held
///
/// A bucket is leased from its third use within a second. Each time its units run out, twice as many are charged ahead
/// as the time before, up to `p`. A bucket that needs no further portion gives half of its units back each second, and
/// one that is not used gives back all of them. [`Limiter::close`](crate::Limiter::close) gives everything back. The
/// units of a process that dies stay charged until the rate has replaced them.
///
/// While the store is asked for more, other requests for the bucket wait for that answer, once and for at most 10 ms, and
/// then ask for themselves. Nobody is refused because of an empty lease: the store decides.
///
/// In a batch, the units of leased limits are taken first, and are returned if the store denies the rest. Debits and
/// resets go to the store. A refund goes to what the process holds, if there is room.
///
/// A process leases up to 4096 buckets at a time. It needs a tokio runtime; without one, the store decides everything.
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

    /// Decides a spend from one leased bucket.
    async fn decide_one(
        &self,
        batch: &Batch<'_>,
        member: &Member<'_>,
    ) -> Result<Outcome, BackendError> {
        let (shared, bucket) = (&self.shared, member.fingerprint);
        if !self.begin_returns() {
            return self.inner().apply(batch).await;
        }
        // A request waits for another request's charge only once, which bounds its delay.
        let mut may_wait = true;
        loop {
            let moment = shared.moment(batch);
            match shared.pool.attempt(moment, member) {
                LeaseAnswer::Taken(left) => return Ok(passed(moment, member, left)),
                LeaseAnswer::Charge(ahead) => {
                    let algorithm = member.algorithm.clone();
                    let charging = ChargeAhead::new(shared, bucket, algorithm, ahead);
                    return charging.decide(batch, member).await;
                }
                LeaseAnswer::Wait(charge) if may_wait => {
                    may_wait = false;
                    let ended = charge.notified();
                    // The charge may have ended between `attempt` and `notified`. Then nothing would wake this request.
                    if shared.pool.is_charging(bucket) {
                        let _ = time::timeout(PATIENCE, ended).await;
                    }
                }
                LeaseAnswer::Wait(_) | LeaseAnswer::Ask => return self.inner().apply(batch).await,
            }
        }
    }

    /// Decides a batch of one leased member, if memory alone can decide it.
    fn try_memory(&self, batch: &Batch<'_>) -> Option<Outcome> {
        let member = only(batch).filter(|member| member.cost > 0)?;
        let (pool, moment) = (&self.shared.pool, self.shared.moment(batch));
        let held = match batch.action(member) {
            Action::Spend => pool.take(moment, member),
            Action::Probe => pool.enough(moment, member),
            Action::Refund => pool.take_back(moment, member),
            _ => None,
        };
        held.map(|held| passed(moment, member, held))
    }
}

fn any_is_leased(batch: &Batch<'_>) -> bool {
    batch.members.iter().any(|member| member.leased > 0)
}

/// Returns the member of a batch of one, if it is leased.
fn only<'a>(batch: &'a Batch<'a>) -> Option<&'a Member<'a>> {
    match batch.members {
        [member] if is_leased(member) => Some(member),
        _ => None,
    }
}

/// Returns the outcome of one request that passed without the store.
fn passed(moment: Moment, member: &Member<'_>, left: Holding) -> Outcome {
    Outcome::of_one(moment.now(), left.answer(member.algorithm, moment.now()))
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
        if !any_is_leased(batch) {
            return self.inner().apply(batch).await;
        }
        let sent = self.shared.moment(batch);
        let mut outcome = match only(batch) {
            Some(member) if batch.action(member) == Action::Spend => {
                self.decide_one(batch, member).await?
            }
            None if batch.operation == Operation::Spend && self.begin_returns() => {
                self.decide_split(batch).await?
            }
            _ => self.inner().apply(batch).await?,
        };
        self.shared.hear(batch, sent, &mut outcome);
        Ok(outcome)
    }

    fn try_apply(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        if !any_is_leased(batch) {
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
