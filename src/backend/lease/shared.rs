use super::{moment::Moment, pool::Pool};
use crate::{
    clock::{Clock, SystemClock},
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

    pub(super) fn moment(&self, batch: &Batch<'_>) -> Moment {
        Moment::new(batch.now, || self.clock.now())
    }
}
