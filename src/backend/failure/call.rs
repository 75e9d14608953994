//! One call of the store.

use std::time::Duration;

use thiserror::Error;
use tokio::time;

use super::breakers::Passes;
use crate::{
    backend::{Backend, BackendError},
    decision::Outcome,
    transaction::Batch,
};

/// Asks the store, within a deadline, and reports the result to the breakers.
pub(super) async fn call(
    store: &impl Backend,
    batch: &Batch<'_>,
    passes: Passes<'_>,
    deadline: Duration,
) -> Result<Outcome, BackendError> {
    let answer = time::timeout(deadline, store.apply(batch)).await;
    let answer = answer.unwrap_or_else(|_| Err(BackendError::unavailable(Late(deadline))));
    match &answer {
        Ok(_) | Err(BackendError::InvalidNow(_)) => passes.succeeded(),
        Err(BackendError::Moving(_)) => drop(passes),
        Err(BackendError::Unavailable(error) | BackendError::NotDone(error)) => {
            passes.failed(error);
        }
    }
    answer
}

/// The error for a store that did not answer in time.
#[derive(Debug, Error)]
#[error("no answer within {0:?}, so the store may have made the change")]
struct Late(Duration);
