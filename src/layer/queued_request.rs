use std::task::{Context, Poll, ready};

use super::{additions::ResponseAdditions, pending_settlement::QueuedCharges};
use crate::limiter::Sleep;

/// A request that waits for its turn.
pub(super) struct QueuedRequest {
    pub(super) sleep: Sleep,
    pub(super) queued: Option<QueuedCharges>,
    pub(super) additions: ResponseAdditions,
}

impl QueuedRequest {
    /// Waits for the turn, and returns the additions to the response.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ResponseAdditions> {
        ready!(self.sleep.as_mut().poll(cx));
        let mut additions = std::mem::take(&mut self.additions);
        if let Some(queued) = self.queued.take() {
            let kept = queued.keep();
            (additions.settlement, additions.permits) = (kept.settlement, kept.permits);
        }
        Poll::Ready(additions)
    }
}
