//! The clock of a process.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{runtime::Handle, time::Instant};

use crate::server::EPOCH;

/// A first runtime is so far ahead of the real clock. No simulation takes that long.
const FAR: Duration = Duration::from_secs(100_000);

/// The clock of a process, which follows the paused clock of its runtime.
#[derive(Debug, Default)]
pub(crate) struct ProcessClock {
    /// The instants at which its runtime has started, by tokio's clock and in the simulation.
    started: Mutex<Option<(Instant, u64)>>,
    /// The time of the simulation where no runtime runs.
    stands: AtomicU64,
    /// How far it is ahead, in microseconds.
    ahead: AtomicI64,
    /// Tokio's clock counts milliseconds here. Readings within one are a microsecond apart.
    last: Mutex<(u64, u64)>,
}

impl ProcessClock {
    /// Returns how far the clock of a runtime that starts now has to be ahead of the real one.
    pub(crate) fn ahead_of_real(&self) -> Duration {
        let started = *self.started.lock().expect("nobody panics");
        match started {
            None => FAR,
            Some((started, born)) => {
                let elapsed = self.stands.load(Relaxed).saturating_sub(born);
                let at = started + Duration::from_micros(elapsed);
                at.saturating_duration_since(Instant::now())
            }
        }
    }

    /// Begins with a runtime that has just started.
    pub(crate) fn start(&self, now: u64) {
        *self.started.lock().expect("nobody panics") = Some((Instant::now(), now));
        self.stands.store(now, Relaxed);
    }

    pub(crate) fn stand(&self, now: u64) {
        self.stands.store(now, Relaxed);
    }

    pub(crate) fn set_ahead(&self, us: i64) {
        self.ahead.store(us, Relaxed);
    }

    pub(crate) fn leap(&self, us: u32) {
        self.ahead.fetch_add(us.into(), Relaxed);
    }

    /// The instant of tokio's clock at a time of the simulation.
    pub(crate) fn instant(&self, at: u64) -> Instant {
        let (started, born) = self
            .started
            .lock()
            .expect("nobody panics")
            .expect("it runs");
        started + Duration::from_micros(at - born)
    }

    /// The time of the simulation.
    pub(crate) fn world(&self) -> u64 {
        if Handle::try_current().is_err() {
            return self.stands.load(Relaxed);
        }
        let (started, born) = self
            .started
            .lock()
            .expect("nobody panics")
            .expect("it runs");
        let elapsed = Instant::now().saturating_duration_since(started);
        let now = born + u64::try_from(elapsed.as_micros()).expect("it is a short time");
        let mut last = self.last.lock().expect("nobody panics");
        let reads = if last.0 == now {
            (last.1 + 1).min(900)
        } else {
            0
        };
        *last = (now, reads);
        now + reads
    }

    /// Microseconds since the Unix epoch, by this clock.
    pub(crate) fn now(&self) -> u64 {
        (EPOCH + self.world()).saturating_add_signed(self.ahead.load(Relaxed))
    }
}
