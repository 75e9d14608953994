//! Charging ahead, beyond what a request costs.

use std::slice;

use super::shared::Shared;
use crate::{
    backend::{Backend, BackendError},
    clock::Timestamp,
    decision::{Outcome, State},
    gcra::Gcra,
    transaction::{Batch, Fingerprint, Member, Mode, Operation, OwnedMember},
};

/// A charge that is on its way. When it ends, even by being dropped, others can go on. After an unknown outcome, nothing has
/// come.
pub(super) struct Charging<'a, B> {
    shared: &'a Shared<B>,
    bucket: Fingerprint,
    ahead: u32,
    has_come: bool,
}

impl<'a, B: Backend> Charging<'a, B> {
    pub(super) fn new(shared: &'a Shared<B>, bucket: Fingerprint, ahead: u32) -> Self {
        Self {
            shared,
            bucket,
            ahead,
            has_come: false,
        }
    }

    /// Charges a request and what is charged ahead, all at once. If the bucket does not hold that much, the store decides the
    /// request alone.
    pub(super) async fn decide(
        mut self,
        batch: &Batch<'_>,
        member: &Member<'_>,
        gcra: &Gcra,
    ) -> Result<Outcome, BackendError> {
        let store = &self.shared.inner;
        let outcome = self.charge(batch.now, member, member.cost + self.ahead);
        let outcome = outcome.await?;
        let [answer] = outcome.answers() else {
            return Ok(outcome);
        };
        self.has_come = answer.passed;
        let would_fit = match answer.state {
            State::Gcra(tat) => gcra
                .spend(tat, outcome.now.as_micros(), member.cost)
                .is_some(),
            _ => false,
        };
        if answer.passed || !would_fit {
            return Ok(outcome);
        }
        drop(self);
        store.apply(batch).await
    }

    /// Charges nothing but what is charged ahead.
    pub(super) async fn alone(mut self, now: Option<Timestamp>, bucket: &OwnedMember) {
        let member = Member {
            mode: Mode::CheckAndSpend,
            ..bucket.lend()
        };
        let outcome = self.charge(now, &member, self.ahead).await;
        let outcome = outcome.as_ref().map(Outcome::answers);
        self.has_come = matches!(outcome, Ok([answer]) if answer.passed);
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
        self.shared.inner.apply(&batch).await
    }
}

impl<B> Drop for Charging<'_, B> {
    fn drop(&mut self) {
        let units = if self.has_come { self.ahead } else { 0 };
        self.shared.pool.charged(self.bucket, units);
    }
}
