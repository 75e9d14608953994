//! Gives back units that were charged ahead and are not needed.

use std::{
    slice,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time;

use super::{bucket::Return, shared::Shared};
use crate::{
    backend::{Backend, BackendError},
    transaction::{Batch, Member, Mode, Operation},
};

/// The interval between two sweeps.
const PERIOD: Duration = Duration::from_secs(1);

/// The longest that the store may take for a refund.
const PATIENCE: Duration = Duration::from_secs(1);

/// Gives back unneeded units, until nothing is held or the backend is dropped.
pub(super) async fn keep_returning<B: Backend>(shared: Weak<Shared<B>>) {
    loop {
        time::sleep(PERIOD).await;
        let Some(shared) = Weak::upgrade(&shared) else {
            return;
        };
        // If the store does not take units back, they stay charged.
        let _ = shared.give_all_back(shared.pool.sweep()).await;
        if shared.pool.is_empty() {
            return;
        }
    }
}

impl<B: Backend> Shared<B> {
    /// Gives units back, each once. After an error, the rest stays charged.
    pub(super) async fn give_all_back(
        self: &Arc<Self>,
        returns: Vec<Return>,
    ) -> Result<(), BackendError> {
        for units in &returns {
            let returned = time::timeout(PATIENCE, self.give_back(units)).await;
            returned.unwrap_or_else(|late| Err(BackendError::unavailable(late)))?;
        }
        Ok(())
    }

    async fn give_back(&self, units: &Return) -> Result<(), BackendError> {
        let member = Member {
            cost: units.receipt.cost(),
            mode: Mode::CheckAndSpend,
            receipt: Some(&units.receipt),
            ..units.member.lend()
        };
        let batch = Batch::new(Operation::Refund, slice::from_ref(&member)).at(units.at);
        self.inner.apply(&batch).await.map(drop)
    }
}
