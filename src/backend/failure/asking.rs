use std::{
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

use crate::{
    backend::{BackendError, Deciding},
    decision::Outcome,
};

pin_project! {
    /// A decision of the store. Almost always, it has begun. The rare one that first waits for its turn is boxed, to keep
    /// this future small.
    #[project = AskingProjected]
    pub(super) enum Asking<'a, F> {
        Begun { #[pin] deciding: F },
        Queued { deciding: Deciding<'a> },
    }
}

impl<F> Future for Asking<'_, F>
where
    F: Future<Output = Result<Outcome, BackendError>>,
{
    type Output = Result<Outcome, BackendError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            AskingProjected::Begun { deciding } => deciding.poll(context),
            AskingProjected::Queued { deciding } => deciding.as_mut().poll(context),
        }
    }
}
