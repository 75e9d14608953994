use std::time::Duration;

#[cfg(feature = "tokio")]
use thiserror::Error;
#[cfg(feature = "tokio")]
use tokio::time;

use super::{BackendError, Deciding};
use crate::decision::Outcome;

/// A decision, or the future that makes it. Returned by [`Backend::begin`](super::Backend::begin).
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum Begun<F> {
    /// The decision, which did not have to wait.
    Decided(Result<Outcome, BackendError>),
    /// The future that decides.
    Waits(F),
}

impl<F: Future<Output = Result<Outcome, BackendError>>> Begun<F> {
    /// Waits for the decision.
    pub(crate) async fn decided(self) -> Result<Outcome, BackendError> {
        match self {
            Self::Decided(decided) => decided,
            Self::Waits(deciding) => deciding.await,
        }
    }

    /// Boxes the future.
    pub(super) fn boxed<'a>(self) -> Begun<Deciding<'a>>
    where
        F: Send + 'a,
    {
        match self {
            Self::Decided(decided) => Begun::Decided(decided),
            Self::Waits(deciding) => Begun::Waits(Box::pin(deciding)),
        }
    }
}

impl<'a> Begun<Deciding<'a>> {
    /// Bounds the time of the future, if there is a deadline.
    pub(super) fn within(
        self,
        deadline: Option<Duration>,
    ) -> Begun<impl Future<Output = Result<Outcome, BackendError>> + Send + 'a> {
        match self {
            Self::Decided(decided) => Begun::Decided(decided),
            Self::Waits(deciding) => Begun::Waits(within(deadline, deciding)),
        }
    }
}

#[cfg(feature = "tokio")]
async fn within(
    deadline: Option<Duration>,
    deciding: Deciding<'_>,
) -> Result<Outcome, BackendError> {
    let Some(deadline) = deadline else {
        return deciding.await;
    };
    let decided = time::timeout(deadline, deciding).await;
    decided.unwrap_or_else(|_| Err(BackendError::unavailable(Late(deadline))))
}

/// Only wrappers that need tokio have deadlines.
#[cfg(not(feature = "tokio"))]
async fn within(_: Option<Duration>, deciding: Deciding<'_>) -> Result<Outcome, BackendError> {
    deciding.await
}

/// The error for a store that did not answer in time.
#[cfg(feature = "tokio")]
#[derive(Debug, Error)]
#[error("no answer within {0:?}, so the store may have made the change")]
struct Late(Duration);
