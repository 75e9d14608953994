//! Charging ahead, beyond what a request costs.

use std::slice;

use super::{
    leasable::{Leasable, Stock, period_of},
    moment::Moment,
    shared::Shared,
};
use crate::{
    backend::{Backend, BackendError},
    clock::Timestamp,
    decision::Outcome,
    transaction::{Batch, Fingerprint, Member, Mode, Operation, OwnedMember},
};

/// A charge at the store. When it ends, even by being dropped, the waiting requests continue. A charge with an unknown
/// outcome brings no units.
pub(super) struct ChargeAhead<'a, B> {
    shared: &'a Shared<B>,
    bucket: Fingerprint,
    ahead: u32,
    come: Stock,
}

impl<'a, B: Backend> ChargeAhead<'a, B> {
    pub(super) fn new(shared: &'a Shared<B>, bucket: Fingerprint, ahead: u32) -> Self {
        Self {
            shared,
            bucket,
            ahead,
            come: Stock::default(),
        }
    }

    /// Charges a request and a portion ahead in one step. If the store's bucket does not hold that much, the store
    /// decides the request alone.
    pub(super) async fn decide(
        mut self,
        batch: &Batch<'_>,
        member: &Member<'_>,
        algorithm: &Leasable,
    ) -> Result<Outcome, BackendError> {
        let store = &self.shared.inner;
        let outcome = self.charge(batch.now, member, member.cost + self.ahead);
        let outcome = outcome.await?;
        self.has_come(&outcome);
        let [answer] = outcome.answers() else {
            return Ok(outcome);
        };
        let fits = || algorithm.fits(answer.state, outcome.now.as_micros(), member.cost);
        if answer.passed || !fits() {
            return Ok(outcome);
        }
        drop(self);
        store.apply(batch).await
    }

    /// Charges a portion ahead, without a request.
    pub(super) async fn alone(mut self, moment: Moment, bucket: &OwnedMember) {
        let member = Member {
            mode: Mode::CheckAndSpend,
            ..bucket.lend()
        };
        // After an unknown outcome, nothing has come.
        if let Ok(outcome) = self.charge(moment.given(), &member, self.ahead).await {
            self.has_come(&outcome);
        }
    }

    fn has_come(&mut self, outcome: &Outcome) {
        if let [answer] = outcome.answers()
            && answer.passed
        {
            self.come = Stock {
                units: self.ahead,
                period: period_of(answer.state),
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
        let sent = self.shared.moment(&batch);
        let mut outcome = self.shared.inner.apply(&batch).await?;
        self.shared.hear(&batch, sent, &mut outcome);
        Ok(outcome)
    }
}

impl<B> Drop for ChargeAhead<'_, B> {
    fn drop(&mut self) {
        self.shared.pool.charged(self.bucket, self.come);
    }
}
