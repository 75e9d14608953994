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

/// What the timers of a runtime count, from its start.
const TICK: Duration = Duration::from_millis(1);

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

/// Rounds up to ticks.
fn whole_ticks(rest: Duration) -> Duration {
    let ticks = rest.as_nanos().div_ceil(TICK.as_nanos());
    TICK * u32::try_from(ticks).expect("it is some days at most")
}

impl ProcessClock {
    /// Returns how far the clock of a runtime that starts now has to be ahead of the real one, in whole milliseconds.
    pub(crate) fn ahead_of_real(&self) -> Duration {
        self.rest().map_or(FAR, whole_ticks)
    }

    /// Returns how far the clock would be put forward if a runtime started now.
    pub(crate) fn gain(&self) -> Option<Duration> {
        let rest = self.rest()?;
        Some(whole_ticks(rest) - rest)
    }

    /// Waits for an instant at which the clock would hardly be put forward.
    pub(crate) fn wait_for_tick(&self) {
        let mut last = self.gain();
        while let Some(gain) = self.gain().filter(|gain| Some(*gain) >= last) {
            last = Some(gain);
        }
    }

    /// Returns how far the clock is ahead of the real one, if it has started.
    fn rest(&self) -> Option<Duration> {
        let (started, born) = (*self.started.lock().expect("nobody panics"))?;
        let elapsed = self.stands.load(Relaxed).saturating_sub(born);
        let at = started + Duration::from_micros(elapsed);
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// Begins anew. Nothing remembers an instant of before.
    pub(crate) fn forget(&self) {
        *self.started.lock().expect("nobody panics") = None;
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
