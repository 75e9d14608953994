use super::pool::Pool;
use crate::{
    clock::{Clock, SystemClock, Timestamp},
    decision::{Answer, Outcome, State},
    gcra::Gcra,
    transaction::Batch,
};

/// What tasks share with the backend.
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

    /// The outcome of one request that has passed without the store.
    pub(super) fn passed(&self, batch: &Batch<'_>, gcra: &Gcra, held: u32) -> Outcome {
        let now = self.now(batch);
        Outcome::of_one(now, answer(gcra, held, now))
    }

    pub(super) fn now(&self, batch: &Batch<'_>) -> Timestamp {
        batch.now.unwrap_or_else(|| self.clock.now())
    }
}

/// The answer for a request that passes, after which so much is held.
pub(super) fn answer(gcra: &Gcra, held: u32, now: Timestamp) -> Answer {
    let tat = gcra.tat_with(held, now.as_micros());
    Answer::new(State::Gcra(tat), true).leased()
}
