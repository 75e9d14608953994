use super::{leased_member::DecisionTime, pool::Pool};
use crate::{
    clock::{Clock, SystemClock},
    decision::{LeaseFigures, Outcome, Source},
    transaction::Batch,
};

/// The part of the backend that its tasks share.
#[derive(Debug)]
pub(super) struct Shared<B> {
    pub(super) inner: B,
    pub(super) pool: Pool,
    clock: SystemClock,
}

impl<B> Shared<B> {
    pub(super) fn new(inner: B) -> Self {
        Self {
            inner,
            pool: Pool::default(),
            clock: SystemClock::new(),
        }
    }

    /// Records what the store has answered to a batch that was sent at this time, and adds what this process holds to the
    /// answers. A cached denial is older than what the store has said since. `leased` tells which members have leases.
    pub(super) fn hear(
        &self,
        batch: &Batch<'_>,
        leased: impl IntoIterator<Item = bool>,
        sent: DecisionTime,
        outcome: &mut Outcome,
    ) {
        let (at, source) = (outcome.now, outcome.source());
        let heard = (source != Source::Cache).then_some(at);
        for (index, (member, is_leased)) in batch.members.iter().zip(leased).enumerate() {
            let figures = outcome.leased(index);
            let Some(answer) = outcome.answers().get(index) else {
                return;
            };
            if !is_leased || !answer.known || figures.decides {
                continue;
            }
            let state = answer.state.by_clock(at, sent.now());
            let held = self.pool.hear(member.fingerprint, state, heard, sent.now());
            if held != figures.held {
                outcome.set_leased(index, LeaseFigures { held, ..figures });
            }
        }
    }

    pub(super) fn decision_time(&self, batch: &Batch<'_>) -> DecisionTime {
        DecisionTime::new(batch.now, || self.clock.now())
    }
}
