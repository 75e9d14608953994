//! A limiter in memory, with the times of a log as its clock.

use tollgate::{
    Limiter, Limits, MemoryBackend,
    clock::{ManualClock, Timestamp},
};

/// A limiter with a clock of its own.
pub(crate) struct Clocked {
    limiter: Limiter,
    clock: ManualClock,
}

impl Clocked {
    pub(crate) fn new(limits: Limits, buckets: usize, history_bytes: usize) -> Self {
        let backend = MemoryBackend::with_max_buckets(buckets).max_history_bytes(history_bytes);
        let clock = ManualClock::new(Timestamp::from_micros(0));
        let limiter = Limiter::new(limits, backend).with_clock(clock.clone());
        Self { limiter, clock }
    }

    /// The limiter at an instant, in microseconds since the epoch.
    pub(crate) fn at(&self, us: u64) -> &Limiter {
        self.clock.set(Timestamp::from_micros(us));
        &self.limiter
    }

    /// The buckets that were forgotten early, because the memory was full.
    pub(crate) fn evictions(&self) -> u64 {
        self.limiter.stats().evictions.unwrap_or_default()
    }
}
