use std::{
    future::ready,
    mem,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
#[cfg(feature = "tokio")]
use thiserror::Error;
#[cfg(feature = "tokio")]
use tokio::time::{Timeout, timeout};

use super::{BackendError, Deciding};
use crate::decision::Outcome;

/// The result of a batch.
pub(super) type DecidedOutcome = Result<Outcome, BackendError>;

/// A decision, or the future that makes it. Dropped before it is polled, the future changes no bucket.
/// The [backend docs](crate::backend#a-custom-backend) have an example.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum MaybeReady<F> {
    /// The decision, which did not have to wait.
    Ready(DecidedOutcome),
    /// The future that decides.
    Waits(F),
}

impl<F: Future<Output = DecidedOutcome>> MaybeReady<F> {
    /// Waits for the decision.
    pub(crate) fn decided(self) -> impl Future<Output = DecidedOutcome> {
        match self {
            Self::Ready(decided) => Either::First {
                deciding: ready(decided),
            },
            Self::Waits(deciding) => Either::Second { deciding },
        }
    }

    /// Returns the decision, if it is one. The future is dropped.
    pub(super) fn ready(self) -> Option<DecidedOutcome> {
        match self {
            Self::Ready(decided) => Some(decided),
            Self::Waits(_) => None,
        }
    }

    /// Passes the decision of the future to a function, which can change it. `begin` returns this function when the future
    /// is polled for the first time.
    #[inline(always)]
    pub(super) fn map_in_place<A, G>(self, begin: A) -> MaybeReady<MapInPlace<F, A, G>>
    where
        A: FnOnce() -> G,
        G: FnOnce(&mut DecidedOutcome),
    {
        self.map(|deciding| MapInPlace::new(deciding, begin))
    }

    /// Wraps the future.
    #[inline(always)]
    pub(super) fn map<G>(self, wrap: impl FnOnce(F) -> G) -> MaybeReady<G> {
        match self {
            Self::Ready(decided) => MaybeReady::Ready(decided),
            Self::Waits(deciding) => MaybeReady::Waits(wrap(deciding)),
        }
    }

    /// Boxes the future.
    #[inline(always)]
    pub(super) fn boxed<'a>(self) -> MaybeReady<Deciding<'a>>
    where
        F: Send + 'a,
    {
        match self {
            Self::Ready(decided) => MaybeReady::Ready(decided),
            Self::Waits(deciding) => MaybeReady::Waits(Box::pin(deciding)),
        }
    }

    /// Bounds the time of the future, if there is a deadline.
    #[inline(always)]
    pub(super) fn within(
        self,
        deadline: Option<Duration>,
    ) -> MaybeReady<impl Future<Output = DecidedOutcome> + use<F>> {
        self.map(|deciding| within(deadline, deciding))
    }
}

pin_project! {
    /// A future whose decision is passed to a function.
    ///
    /// None of the types here is an `async` block, which would store the future twice: as one of its variables, and where it
    /// is awaited.
    pub(super) struct MapInPlace<F, A, G> {
        #[pin]
        deciding: F,
        change: InPlaceChange<A, G>,
    }
}

/// The function of a [`MapInPlace`].
enum InPlaceChange<A, G> {
    Unbegun(A),
    Begun(G),
    Ended,
}

impl<F, A, G> MapInPlace<F, A, G> {
    #[inline(always)]
    pub(super) fn new(deciding: F, begin: A) -> Self {
        Self {
            deciding,
            change: InPlaceChange::Unbegun(begin),
        }
    }
}

impl<F, A, G> Future for MapInPlace<F, A, G>
where
    F: Future<Output = DecidedOutcome>,
    A: FnOnce() -> G,
    G: FnOnce(&mut DecidedOutcome),
{
    type Output = DecidedOutcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<DecidedOutcome> {
        let this = self.project();
        *this.change = match mem::replace(this.change, InPlaceChange::Ended) {
            InPlaceChange::Unbegun(begin) => InPlaceChange::Begun(begin()),
            begun => begun,
        };
        // A decision is large, so it is changed in its place.
        let mut polled = this.deciding.poll(context);
        if let Poll::Ready(decided) = &mut polled
            && let InPlaceChange::Begun(change) = mem::replace(this.change, InPlaceChange::Ended)
        {
            change(decided);
        }
        polled
    }
}

pin_project! {
    /// One of two futures.
    #[project = EitherProjected]
    pub(super) enum Either<F, G> {
        First { #[pin] deciding: F },
        Second { #[pin] deciding: G },
    }
}

impl<F, G> Future for Either<F, G>
where
    F: Future<Output = DecidedOutcome>,
    G: Future<Output = DecidedOutcome>,
{
    type Output = DecidedOutcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<DecidedOutcome> {
        match self.project() {
            EitherProjected::First { deciding } => deciding.poll(context),
            EitherProjected::Second { deciding } => deciding.poll(context),
        }
    }
}

/// Bounds the time of a decision, if there is a deadline.
#[cfg(feature = "tokio")]
pub(super) fn within<F: Future<Output = DecidedOutcome>>(
    deadline: Option<Duration>,
    deciding: F,
) -> Either<InTime<F>, F> {
    match deadline {
        Some(deadline) => Either::First {
            deciding: InTime {
                deciding: timeout(deadline, deciding),
                deadline,
            },
        },
        None => Either::Second { deciding },
    }
}

/// Only wrappers that need tokio have deadlines.
#[cfg(not(feature = "tokio"))]
fn within<F>(_: Option<Duration>, deciding: F) -> F {
    deciding
}

#[cfg(feature = "tokio")]
pin_project! {
    /// A decision that is an error after a deadline.
    pub(super) struct InTime<F> {
        #[pin]
        deciding: Timeout<F>,
        deadline: Duration,
    }
}

#[cfg(feature = "tokio")]
impl<F: Future<Output = DecidedOutcome>> Future for InTime<F> {
    type Output = DecidedOutcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<DecidedOutcome> {
        let this = self.project();
        let late = || BackendError::unavailable(Late(*this.deadline));
        let polled = this.deciding.poll(context);
        polled.map(|decided| decided.unwrap_or_else(|_| Err(late())))
    }
}

/// The error for a store that did not answer in time.
#[cfg(feature = "tokio")]
#[derive(Debug, Error)]
#[error("no answer within {0:?}, so the store may have made the change")]
struct Late(Duration);
