use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
#[cfg(feature = "tokio")]
use thiserror::Error;
#[cfg(feature = "tokio")]
use tokio::time;

use super::{BackendError, Deciding};
use crate::decision::Outcome;

/// The result of a batch.
type DecidedOutcome = Result<Outcome, BackendError>;

pin_project! {
    /// A future, and what follows it. An `async` block would store the future twice: as one of its variables, and where it
    /// is awaited.
    pub(super) struct Then<F, G> {
        #[pin]
        deciding: F,
        then: Option<G>,
    }
}

impl<F: Future<Output = DecidedOutcome>, G: FnOnce(&mut DecidedOutcome)> Future for Then<F, G> {
    type Output = DecidedOutcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<DecidedOutcome> {
        let this = self.project();
        // A decision is large, so it is changed in its place.
        let mut polled = this.deciding.poll(context);
        if let Poll::Ready(decided) = &mut polled {
            let then = this.then.take().expect("a future ends once");
            then(decided);
        }
        polled
    }
}

/// A decision, or the future that makes it. Returned by [`Backend::begin`](super::Backend::begin).
/// The [backend docs](crate::backend#a-custom-backend) have an example.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum Begun<F> {
    /// The decision, which did not have to wait.
    Decided(DecidedOutcome),
    /// The future that decides.
    Waits(F),
}

impl<F: Future<Output = DecidedOutcome>> Begun<F> {
    /// Waits for the decision.
    pub(crate) async fn decided(self) -> DecidedOutcome {
        match self {
            Self::Decided(decided) => decided,
            Self::Waits(deciding) => deciding.await,
        }
    }

    /// Passes the decision of the future to a function, which can change it.
    #[inline(always)]
    pub(super) fn then<G: FnOnce(&mut DecidedOutcome)>(self, then: G) -> Begun<Then<F, G>> {
        match self {
            Self::Decided(decided) => Begun::Decided(decided),
            Self::Waits(deciding) => Begun::Waits(Then {
                deciding,
                then: Some(then),
            }),
        }
    }

    /// Wraps the future.
    #[cfg(feature = "failure-policy")]
    #[inline(always)]
    pub(super) fn map<G>(self, wrap: impl FnOnce(F) -> G) -> Begun<G> {
        match self {
            Self::Decided(decided) => Begun::Decided(decided),
            Self::Waits(deciding) => Begun::Waits(wrap(deciding)),
        }
    }

    /// Boxes the future.
    #[inline(always)]
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
    #[inline(always)]
    pub(super) fn within(
        self,
        deadline: Option<Duration>,
    ) -> Begun<impl Future<Output = DecidedOutcome> + Send + 'a> {
        match self {
            Self::Decided(decided) => Begun::Decided(decided),
            Self::Waits(deciding) => Begun::Waits(within(deadline, deciding)),
        }
    }
}

#[cfg(feature = "tokio")]
async fn within(deadline: Option<Duration>, deciding: Deciding<'_>) -> DecidedOutcome {
    let Some(deadline) = deadline else {
        return deciding.await;
    };
    let decided = time::timeout(deadline, deciding).await;
    decided.unwrap_or_else(|_| Err(BackendError::unavailable(Late(deadline))))
}

/// Only wrappers that need tokio have deadlines.
#[cfg(not(feature = "tokio"))]
async fn within(_: Option<Duration>, deciding: Deciding<'_>) -> DecidedOutcome {
    deciding.await
}

/// The error for a store that did not answer in time.
#[cfg(feature = "tokio")]
#[derive(Debug, Error)]
#[error("no answer within {0:?}, so the store may have made the change")]
struct Late(Duration);
