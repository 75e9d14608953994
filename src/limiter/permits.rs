//! Permits of concurrency limits, which are renewed while their work runs.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use smallvec::{SmallVec, smallvec};
use tokio::time::Instant;

use super::{LimitHandle, Limiter, error::LimiterError, permit_record::PermitRecord};
use crate::{
    algorithm::{Ask, Verb},
    batch::{Batch, Member, OwnedMember},
    decision::Decision,
    task::detached,
    transaction::{Mode, Operation, Receipt},
};

/// The right to run a piece of work under a [concurrency limit](crate::Limit::concurrent). Dropping it ends the work, so that other
/// work can start. [`LimitHandle::enter`] returns it, and [`Assessment::permits`](crate::layer::Assessment::permits) those of a
/// request.
///
/// While it exists, it is renewed in the background. If the process dies, its permits come back after at most the
/// [hold](crate::Limit::hold).
///
/// It is empty if nothing was charged, because no limit is configured or it is in shadow mode.
#[derive(Default)]
#[must_use = "dropping a permit gives it back"]
pub struct Permit(SmallVec<[Arc<Work>; 1]>);

/// A permit that another owner holds. It does not keep the work alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct LentPermit(SmallVec<[Weak<Work>; 1]>);

impl LentPermit {
    /// Returns the permit if its owner still holds it.
    pub(crate) fn permit(&self) -> Permit {
        Permit(self.0.iter().filter_map(Weak::upgrade).collect())
    }
}

/// Ends a piece of work when it is dropped.
struct Work(Arc<PermitRecord>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl LimitHandle {
    /// Takes a permit of a [concurrency limit](crate::Limit::concurrent) for a piece of work, or returns the decision that
    /// denies it.
    ///
    /// The permit is given back when it is dropped, and renewed in the background until then.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Limits, MemoryBackend};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let limits = Limits::builder().limit("exports", Limit::concurrent(2)).build()?;
    /// let exports = Limiter::new(limits, MemoryBackend::new()).limit("exports")?;
    ///
    /// let Ok(permit) = exports.enter("alice").await? else {
    ///     panic!("two exports of alice are running");
    /// };
    /// // Write the export.
    /// drop(permit);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cancellation safety
    ///
    /// It is safe to drop the future at any time. A permit that the store has granted by then, or grants later, is given
    /// back in the background.
    ///
    /// # Errors
    ///
    /// If the limit is of another algorithm, outside of a tokio runtime with a timer, and as [`Limiter::spend`].
    pub async fn enter(&self, id: &str) -> Result<Result<Permit, Decision>, LimiterError> {
        let limiter = self.limiter();
        let client = limiter.client(Operation::Spend, &self.transaction(id))?;
        let member = client.as_member();
        if member.has_bucket() && member.algorithm().hold().is_none() {
            return Err(LimiterError::unsupported(
                self.name(),
                "it has no permits: only a limit of what runs at once (`concurrent`) has them",
            ));
        }
        let since = Instant::now();
        let decision = limiter.decide(Operation::Spend, &client).await?;
        if !decision.allowed() {
            return Ok(Err(decision));
        }
        Permit::hold(limiter, &member, &decision, since).map(Ok)
    }
}

impl Permit {
    /// Holds the permits that a decision on a member has charged. `since` is the instant before the store was asked.
    pub(crate) fn hold(
        limiter: &Limiter,
        member: &Member<'_>,
        decision: &Decision,
        since: Instant,
    ) -> Result<Self, LimiterError> {
        let client = OwnedMember::from(member);
        // The limits can have changed since the decision.
        let hold = limiter.hold_of(&client);
        let (Some(receipt), Some(hold)) = (decision.receipt(), hold) else {
            return Ok(Self::default());
        };
        let limit = member.limit.name();
        let counted = member.limit.meter().held(limit, receipt.cost());
        let record = limiter.shared.permits.keep(|number| {
            let time = (since, hold);
            PermitRecord::new(number, limiter, client, receipt, time, Some(counted))
        });
        let permit = Self(smallvec![Arc::new(Work(record))]);
        // On an error, the permit is dropped, which gives it back.
        let running = limiter.shared.permits.run_here();
        running.map_err(|reason| LimiterError::unsupported(limit, reason))?;
        Ok(permit)
    }

    /// Joins several permits into one.
    pub(crate) fn join(permits: impl IntoIterator<Item = Self>) -> Self {
        Self(permits.into_iter().flat_map(|permit| permit.0).collect())
    }

    /// Returns a reference with which others can hold the permit, too, as long as it is held.
    pub(crate) fn lend(&self) -> LentPermit {
        LentPermit(self.0.iter().map(Arc::downgrade).collect())
    }

    /// Returns whether there is no other owner of the permit.
    pub(crate) fn is_held_here_alone(&self) -> bool {
        self.0.iter().all(|work| Arc::strong_count(work) == 1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the permit still counts. It is lost if this process was paused or cut off from the store for longer
    /// than the hold, which is logged. Other work may have started since.
    ///
    /// It is always true if no limit is configured.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.iter().all(|work| work.0.is_held())
    }

    /// Gives the permit back, and waits until the store has it. Returns whether it was still held.
    ///
    /// It is safe to drop the future: the permit is given back all the same. A permit of a request comes back when its layer
    /// gives it back, too.
    ///
    /// # Errors
    ///
    /// If the store does not answer. The permit is then given back in the background, as soon as the store answers.
    pub async fn release(self) -> Result<bool, LimiterError> {
        let mut was_held = true;
        for work in self.0 {
            was_held &= match Arc::try_unwrap(work) {
                Ok(work) => detached(Arc::clone(&work.0).release()).await?,
                Err(shared) => shared.0.is_held(),
            };
        }
        Ok(was_held)
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("is_held", &self.is_held())
            .finish_non_exhaustive()
    }
}

/// Permits that the store was asked to grant or to take back, until it has answered. Without an answer, they are given back by
/// their names in the background.
pub(super) struct UnansweredPermits<'a> {
    limiter: &'a Limiter,
    permits: SmallVec<[UnansweredPermit; 1]>,
}

struct UnansweredPermit {
    client: OwnedMember,
    receipt: Receipt,
    hold: Duration,
}

impl<'a> UnansweredPermits<'a> {
    /// Creates the list of the permits that a batch spends.
    pub(super) fn of_batch(limiter: &'a Limiter, batch: &Batch<'_>) -> Self {
        let asked = batch.members.iter().filter_map(|member| {
            let hold = member.algorithm().hold()?;
            let charge = member.ask.charge.filter(|_| batch.writes(member))?;
            let is_spent = batch.operation == Operation::Spend;
            let algorithm = member.algorithm().key();
            is_spent.then(|| UnansweredPermit {
                client: OwnedMember::from(member),
                receipt: Receipt::new(algorithm, charge, false, member.print.short()),
                hold,
            })
        });
        Self {
            limiter,
            permits: asked.collect(),
        }
    }

    /// Creates the list of the permits of a receipt that is refunded.
    pub(super) fn of_refund(limiter: &'a Limiter, client: &OwnedMember, receipt: &Receipt) -> Self {
        let permits = limiter.hold_of(client).map(|hold| UnansweredPermit {
            client: client.clone(),
            receipt: receipt.copy(),
            hold,
        });
        Self {
            limiter,
            permits: permits.into_iter().collect(),
        }
    }

    pub(super) fn are_answered(mut self) {
        self.permits.clear();
    }
}

impl Drop for UnansweredPermits<'_> {
    fn drop(&mut self) {
        for UnansweredPermit {
            client,
            receipt,
            hold,
        } in self.permits.drain(..)
        {
            let limiter = self.limiter;
            let record = limiter.shared.permits.keep(|number| {
                let time = (Instant::now(), hold);
                PermitRecord::new(number, limiter, client, receipt, time, None)
            });
            record.end();
        }
    }
}

impl Limiter {
    /// Returns how long the permits of a client count by the limits in force; `None` if its limit has none.
    pub(super) fn hold_of(&self, client: &OwnedMember) -> Option<Duration> {
        let limits = self.in_force();
        let limit = limits.get(client.limit().name())?;
        let ask = Ask::new(Verb::Peek, 1);
        let member = client.corrected(Operation::Peek, limit, ask, Mode::CheckOnly);
        member.by?.algorithm()?.hold()
    }
}
