//! A backend around another backend that charges ahead and hands out units from memory.

mod bucket;
mod charge;
mod in_force;
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
    in_force::LimitsInForce,
    leased_member::{DecisionTime, LeasedMember, Splits},
    shared::Shared,
    terms::{LimitSplit, part_in_force},
};
use super::{
    Backend, BackendError, Deciding, Fleet, LeaseShare, LeasedLimits, LimiterId, MaybeReady,
    StackPart, UnsupportedLimit, Wrapper,
    maybe_ready::{DecidedOutcome, Either, within},
    one_task::OneTask,
    stack_part::LimitLeasing,
};
use crate::{
    algorithm::Action,
    clock::Timestamp,
    decision::{OtherAnswer, Outcome},
    transaction::{Algorithm, Batch, LimitKey, Member, Operation},
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
///     backend::{DenyCache, FailurePolicy, Fleet, Lease},
///     limit::LimitName,
/// };
///
/// let name = LimitName::from("requests").lease(1, 20);
/// let limits = Limits::builder().limit(name, Limit::per_second(10_000)).build()?;
/// let redis = RedisBackend::new("redis://127.0.0.1:6379")?;
/// // Eight processes at most, those included that a deploy replaces.
/// let fleet = Fleet::of(8);
/// let backend = FailurePolicy::new(Lease::new(DenyCache::new(redis), &fleet)).fleet(&fleet);
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
/// Put it inside a [`FailurePolicy`](super::FailurePolicy), and around a [`DenyCache`](super::DenyCache) or a wrapper of your
/// own that remembers answers. A wrapper around it has to return it by [`Backend::wrapped`], by which limiters find it.
///
/// Limiters that share it should have the same limits. If the shares of a limit differ, the larger one counts for all.
#[derive(Debug)]
pub struct Lease<B> {
    shared: Arc<Shared<B>>,
    limits: LimitsInForce,
    returns: OneTask,
    fleet: Fleet,
    /// The size of the fleet when this was created.
    first: NonZeroU32,
}

/// The longest that a request waits for another request's charge.
const PATIENCE: Duration = Duration::from_millis(10);

impl<B: Backend> Lease<B> {
    /// Leases from `inner`, in this fleet: a number of processes, or a [`Fleet`] that can be resized.
    ///
    /// A change applies to each decision that begins afterwards, as a reload of the limits does. The process gives back
    /// what it holds, within two seconds of the next request for the bucket.
    ///
    /// # Panics
    ///
    /// If a number is passed, and it is 0.
    #[must_use]
    #[track_caller]
    pub fn new(inner: B, fleet: impl Into<Fleet>) -> Self {
        let fleet = fleet.into();
        Self {
            shared: Arc::new(Shared::new(inner)),
            limits: LimitsInForce::default(),
            returns: OneTask::default(),
            first: fleet.processes(),
            fleet,
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

    /// Decides a batch with leased members, which memory could not decide.
    async fn decide(&self, batch: &Batch<'_>, splits: Splits) -> DecidedOutcome {
        let members = splits.members(batch);
        let split = splits.batch(batch, &members);
        let sent = self.shared.decision_time(batch);
        let is_spend = batch.operation == Operation::Spend;
        let decided = match split.only() {
            Some(leased) if batch.action(leased.member) == Action::Spend => {
                self.decide_one(&split.batch, leased).await
            }
            None if is_spend && self.begin_returns() => self.decide_split(&split).await,
            _ => self.inner().ask(&split.batch, None).decided().await,
        };
        let mut outcome = decided?;
        let leased = split.are_leased();
        self.shared.hear(&split.batch, leased, sent, &mut outcome);
        splits.complete(&mut outcome);
        Ok(outcome)
    }

    /// Decides a spend from one leased bucket.
    async fn decide_one(
        &self,
        batch: &Batch<'_>,
        leased: LeasedMember<'_>,
    ) -> Result<Outcome, BackendError> {
        let (shared, member) = (&self.shared, leased.member);
        if !self.begin_returns() {
            return self.inner().ask(batch, None).decided().await;
        }
        // A request waits for another request's charge only once, which bounds its delay.
        let mut may_wait = true;
        loop {
            let when = shared.decision_time(batch);
            match shared.pool.attempt(when, leased) {
                LeaseAnswer::Taken(left) => {
                    return Ok(of_one(when, left.answer(member.algorithm, when.now())));
                }
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
                LeaseAnswer::Wait(_) | LeaseAnswer::Ask => {
                    return self.inner().ask(batch, None).decided().await;
                }
            }
        }
    }

    /// Decides a batch of one leased member, if memory alone can decide it.
    fn decide_in_memory(&self, batch: &Batch<'_>, splits: &Splits) -> Option<DecidedOutcome> {
        if let Some(Err(error)) = batch.now.map(Timestamp::validate) {
            return Some(Err(error.into()));
        }
        let ([member], split) = (batch.members, splits.only()?) else {
            return None;
        };
        if member.cost == 0 {
            return None;
        }
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
        let mut held = held?.answer(&split.at_store, when.now());
        held.leased.reserved = split.reserved;
        Some(Ok(of_one(when, held)))
    }
}

/// Returns the outcome of one request that memory has decided.
fn of_one(when: DecisionTime, held: OtherAnswer<'_>) -> Outcome {
    let mut outcome = Outcome::of_one(when.now(), held.answer);
    outcome.set_leased(0, held.leased);
    outcome
}

#[async_trait]
impl<B: Backend> Backend for Lease<B> {
    async fn apply(&self, batch: &Batch<'_>) -> DecidedOutcome {
        self.ask(batch, None).decided().await
    }

    fn try_apply(&self, batch: &Batch<'_>) -> Option<DecidedOutcome> {
        self.ask(batch, None).ready()
    }

    fn wrapped(&self) -> Option<&dyn Backend> {
        Some(self.inner())
    }

    fn ask<'a>(
        &'a self,
        batch: &'a Batch<'a>,
        deadline: Option<Duration>,
    ) -> MaybeReady<impl Future<Output = DecidedOutcome> + Send + 'a> {
        let splits = Splits::of(batch, &self.limits.read(), self.fleet.processes());
        let Some(splits) = splits else {
            let asked = self.inner().ask(batch, deadline);
            return asked.map(|deciding| Either::First { deciding });
        };
        match self.decide_in_memory(batch, &splits) {
            Some(decided) => MaybeReady::Ready(decided),
            None => {
                // Boxed, to keep the future of a batch without leases small. Leased buckets seldom ask the store.
                let deciding: Deciding<'a> = Box::pin(self.decide(batch, splits));
                MaybeReady::Waits(Either::Second {
                    deciding: within(deadline, deciding),
                })
            }
        }
    }

    async fn close(&self) -> Result<(), BackendError> {
        let returned = self.shared.close().await;
        returned.and(self.inner().close().await)
    }

    fn as_stack_part(&self) -> Option<StackPart<'_>> {
        Some(StackPart(self))
    }
}

impl<B: Backend> Wrapper for Lease<B> {
    fn ask_boxed<'a>(&'a self, batch: &'a Batch<'a>) -> MaybeReady<Deciding<'a>> {
        self.ask(batch, None).boxed()
    }

    fn as_leasing(&self) -> Option<&dyn LimitLeasing> {
        Some(self)
    }
}

impl<B: Backend> LimitLeasing for Lease<B> {
    fn part_with(
        &self,
        algorithm: &Algorithm,
        share: LeaseShare,
    ) -> Result<Algorithm, UnsupportedLimit> {
        part_in_force(algorithm, share, self.fleet.processes(), self.first)
    }

    fn lease(&self, limiter: &LimiterId, limits: LeasedLimits) {
        self.limits.replace(limiter, limits);
    }

    fn part_of(&self, key: LimitKey<'_>, algorithm: &Algorithm) -> Option<Algorithm> {
        let limits = self.limits.read();
        let share = limits.get(key)?.share();
        let split = LimitSplit::of(algorithm, share, self.fleet.processes())?;
        Some(split.at_store)
    }
}
