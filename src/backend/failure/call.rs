//! One call of the store.

use super::breakers::Passes;
use crate::{backend::BackendError, decision::Outcome};

/// Waits for the store, and reports the result to the breakers.
pub(super) async fn call(
    deciding: impl Future<Output = Result<Outcome, BackendError>>,
    passes: Passes<'_>,
) -> Result<Outcome, BackendError> {
    let answer = deciding.await;
    match &answer {
        Ok(_) | Err(BackendError::InvalidNow(_)) => passes.succeeded(),
        Err(BackendError::Moving(_)) => drop(passes),
        Err(BackendError::Unavailable(error) | BackendError::NotDone(error)) => {
            passes.failed(error);
        }
    }
    answer
}
