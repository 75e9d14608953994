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
    /// The number of seats of requests that wait, or that may have to.
    taken: AtomicUsize,
}

impl WaitingRoom {
    /// The default of [`RateLimitLayer::max_waiting`](super::RateLimitLayer::max_waiting).
    pub(super) const DEFAULT_MAX: usize = 10_000;

    pub(super) const fn new(max: usize) -> Self {
        Self {
            max,
            taken: AtomicUsize::new(0),
        }
    }

    /// Reserves a seat for a request that may have to wait. Without a runtime, no request can.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Seat> {
        if !has_runtime() {
            return None;
        }
        let more = |taken| (taken < self.max).then_some(taken + 1);
        let entered = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        entered.ok()?;
        Some(Seat {
            room: Arc::clone(self),
            waits: false,
        })
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
            .field("taken", &self.taken)
            .finish()
    }
}

/// A place in the room. It is taken before the request is decided: a request that is admitted to a line and then finds no
/// seat would leave a slot behind that nobody uses.
pub(super) struct Seat {
    room: Arc<WaitingRoom>,
    waits: bool,
}

impl Seat {
    /// Counts the request as waiting.
    pub(super) fn wait(&mut self) {
        self.waits = true;
        metrics::waits(true);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(1, Ordering::Relaxed);
        if self.waits {
            metrics::waits(false);
        }
    }
}

#[cfg(feature = "tokio")]
fn has_runtime() -> bool {
    tokio::runtime::Handle::try_current().is_ok()
}

#[cfg(not(feature = "tokio"))]
const fn has_runtime() -> bool {
    false
}
