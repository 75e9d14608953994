//! A store that is reached and left by ways of any length.

use std::sync::Arc;

use tollgate::{
    backend::{Backend, BackendError, async_trait},
    decision::Outcome,
    transaction::Batch,
};

use super::random::Random;

/// What is lost on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Losses {
    Nothing,
    /// Some calls, before or after they are decided.
    Some,
    /// All calls, before they are decided, which is known.
    All,
}

#[derive(Debug)]
pub(crate) struct Lossy {
    pub(crate) store: Arc<dyn Backend>,
    pub(crate) random: Random,
    pub(crate) losses: Losses,
}

#[async_trait]
impl Backend for Lossy {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let fate = match self.losses {
            Losses::Nothing => None,
            Losses::Some => Some(self.random.below(12)),
            Losses::All => Some(0),
        };
        self.random.pause().await;
        match fate {
            Some(0) => return Err(BackendError::not_done("not reached")),
            Some(1) => return Err(BackendError::unavailable("lost")),
            _ => {}
        }
        let decided = self.store.apply(batch).await;
        self.random.pause().await;
        match fate {
            Some(2) => Err(BackendError::unavailable("lost")),
            _ => decided,
        }
    }
}
