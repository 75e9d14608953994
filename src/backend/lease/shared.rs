use super::{leased_member::DecisionTime, pool::Pool};
use crate::{
    clock::{Clock, SystemClock},
    decision::{Outcome, Source},
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
    /// answers. A cached denial is older than what the store has said since.
    pub(super) fn hear(&self, batch: &Batch<'_>, sent: DecisionTime, outcome: &mut Outcome) {
        let (at, source) = (outcome.now, outcome.source());
        let heard = (source != Source::Cache).then_some(at);
        for (member, answer) in batch.members.iter().zip(outcome.answers_mut()) {
            if member.lease.is_none() || !answer.known || answer.leased {
                continue;
            }
            let state = answer.state.by_clock(at, sent.now());
            answer.held = self.pool.hear(member.fingerprint, state, heard, sent.now());
        }
    }

    pub(super) fn decision_time(&self, batch: &Batch<'_>) -> DecisionTime {
        DecisionTime::new(batch.now, || self.clock.now())
    }
}
