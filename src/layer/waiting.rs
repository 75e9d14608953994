use std::task::{Context, Poll, ready};

use http::request::Parts;

use super::{
    additions::ResponseAdditions,
    conclusion::Conclusion,
    queued_request::QueuedRequest,
    store_wait::{StoreDecision, StoreWait},
};

/// The progress of a request.
pub(super) enum Progress {
    Decided(Conclusion),
    Waiting(Waiting),
}

/// The reason for which a request waits.
pub(super) enum Waiting {
    ForStore(Box<StoreWait>),
    InLine(Box<QueuedRequest>),
}

impl Waiting {
    pub(super) fn poll(
        &mut self,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
        cx: &mut Context<'_>,
    ) -> Poll<Conclusion> {
        loop {
            match self {
                Self::ForStore(undecided) => {
                    let decided = ready!(undecided.deciding.as_mut().poll(cx));
                    match undecided.proceed(decided, request, additions) {
                        Progress::Decided(conclusion) => return Poll::Ready(conclusion),
                        Progress::Waiting(next) => *self = next,
                    }
                }
                Self::InLine(line) => {
                    *additions = ready!(line.poll(cx));
                    return Poll::Ready(Conclusion::Proceed);
                }
            }
        }
    }
}

impl StoreWait {
    /// Continues with a request that the store has decided.
    fn proceed(
        &self,
        decided: StoreDecision,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        let (config, limits, missing) = (&self.config, &self.limits, self.missing.as_deref());
        match decided {
            Ok((ours, start)) => {
                config.proceed(request, limits, ours.view(), start, missing, additions)
            }
            Err((charges, error)) => {
                let charges = charges.list();
                Progress::Decided(config.fail(request, limits, charges, &error, missing))
            }
        }
    }
}
