//! Charging ahead, beyond what a request costs.

use std::{slice, sync::Arc};

use super::{leased_member::DecisionTime, leased_units::LeasedUnits, shared::Shared};
use crate::{
    algorithm::Algorithm,
    backend::{Backend, BackendError},
    clock::Timestamp,
    decision::Outcome,
    transaction::{Batch, Fingerprint, Member, Mode, Operation, OwnedMember},
};

/// A charge at the store. When it ends, even by being dropped, the waiting requests continue. A charge with an unknown
/// outcome brings no units.
///
/// It exists from the moment at which its bucket is marked as being charged. So it is created before the task that runs
/// it is spawned, and moved into that task: the mark goes even if the runtime ends before the task is first polled.
pub(super) struct ChargeAhead<B> {
    shared: Arc<Shared<B>>,
    bucket: Fingerprint,
    algorithm: Algorithm,
    ahead: u32,
    come: LeasedUnits,
}

impl<B: Backend> ChargeAhead<B> {
    pub(super) fn new(
        shared: &Arc<Shared<B>>,
        bucket: Fingerprint,
        algorithm: Algorithm,
        ahead: u32,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            bucket,
            algorithm,
            ahead,
            come: LeasedUnits::default(),
        }
    }

    /// Charges a request and a portion ahead in one step. If the store's bucket does not hold that much, the store
    /// decides the request alone.
    pub(super) async fn decide(
        mut self,
        batch: &Batch<'_>,
        member: &Member<'_>,
    ) -> Result<Outcome, BackendError> {
        let outcome = self.charge(batch.now, member, member.cost + self.ahead);
        let outcome = outcome.await?;
        self.has_come(&outcome);
        let [answer] = outcome.answers() else {
            return Ok(outcome);
        };
        let fits = || self.algorithm.fits(answer.state, outcome.now, member.cost);
        if answer.passed || !fits() {
            return Ok(outcome);
        }
        let shared = Arc::clone(&self.shared);
        drop(self);
        shared.inner.ask(batch, None).decided().await
    }

    /// Charges a portion ahead, without a request.
    pub(super) async fn alone(mut self, when: DecisionTime, bucket: &OwnedMember) {
        let member = Member {
            mode: Mode::CheckAndSpend,
            ..bucket.as_member()
        };
        // After an unknown outcome, nothing has come.
        if let Ok(outcome) = self.charge(when.given(), &member, self.ahead).await {
            self.has_come(&outcome);
        }
    }

    fn has_come(&mut self, outcome: &Outcome) {
        if let [answer] = outcome.answers()
            && answer.passed
        {
            self.come = LeasedUnits {
                units: self.ahead,
                period: self.algorithm.period_of(answer.state).unwrap_or_default(),
            };
        }
    }

    async fn charge(
        &self,
        now: Option<Timestamp>,
        member: &Member<'_>,
        cost: u32,
    ) -> Result<Outcome, BackendError> {
        let member = Member {
            cost,
            min_cost: cost,
            ..*member
        };
        let batch = Batch::new(Operation::Spend, slice::from_ref(&member)).at(now);
        let sent = self.shared.decision_time(&batch);
        let mut outcome = self.shared.inner.ask(&batch, None).decided().await?;
        self.shared.hear(&batch, [true], sent, &mut outcome);
        Ok(outcome)
    }
}

impl<B> Drop for ChargeAhead<B> {
    fn drop(&mut self) {
        let Self {
            shared,
            bucket,
            algorithm,
            come,
            ..
        } = self;
        shared.pool.charged(*bucket, *come, algorithm);
    }
}
