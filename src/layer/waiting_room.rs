use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::metrics;

/// Bounds the number of requests of one layer that wait in line.
pub(super) struct WaitingRoom {
    max: usize,
    waiting: AtomicUsize,
}

impl WaitingRoom {
    /// The default of [`RateLimitLayer::max_waiting`](super::RateLimitLayer::max_waiting).
    pub(super) const DEFAULT_MAX: usize = 10_000;

    pub(super) const fn new(max: usize) -> Self {
        Self {
            max,
            waiting: AtomicUsize::new(0),
        }
    }

    pub(super) fn enter(self: &Arc<Self>) -> Option<Seat> {
        let more = |waiting| (waiting < self.max).then_some(waiting + 1);
        let entered = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        entered.ok()?;
        metrics::waits(true);
        Some(Seat(Arc::clone(self)))
    }
}

impl Default for WaitingRoom {
    fn default() -> Self {
        Self::new(Self::DEFAULT_MAX)
    }
}

impl fmt::Debug for WaitingRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingRoom")
            .field("max", &self.max)
            .field("waiting", &self.waiting)
            .finish()
    }
}

/// A place in the room.
pub(super) struct Seat(Arc<WaitingRoom>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        metrics::waits(false);
    }
}
