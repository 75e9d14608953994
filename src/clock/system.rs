use std::{
    fmt,
    sync::Arc,
    time::{Instant, SystemTime},
};

use parking_lot::Mutex;

use super::{
    Clock, Timestamp,
    line::{ClockLine, ClockSample, scale},
    published::Published,
};

/// The time of day when the clock was made, and from there the system's monotonic clock. A wall clock that is set back
/// freezes no bucket. Clones show the same time. The [module docs](super) have an example of a clock.
///
/// The time is read from the processor's counter where there is a reliable one, because that takes a fraction of the time
/// that the system's clock takes. Ten times a second, a call compares it with the monotonic clock ([`Instant`]; on Linux,
/// `CLOCK_MONOTONIC`) and corrects it:
///
/// - It stays within a millisecond of the monotonic clock, however long the process runs. The error is usually a few
///   microseconds: what the counter drifts by in a tenth of a second.
/// - It never steps back, and it runs at most 0.05 % faster than the counter.
/// - If it is more than a millisecond behind, it steps forward immediately. This happens when the counter has stood
///   still, or has restarted at zero, as some do when a machine resumes.
/// - A counter that leaps ahead takes it at most a tenth of a second ahead. Then it runs slower, at least at half the
///   speed, until the monotonic clock has caught up.
/// - A correction takes each thread less than a microsecond. No thread waits for another one's readings of the clocks.
///
/// Only if the counter itself steps back by less than a tenth of a second may the clock step back too. Suspension of
/// the machine counts as time if the monotonic clock counts it, which it does not on Linux.
#[derive(Clone)]
pub struct SystemClock {
    epoch: Timestamp,
    time: Arc<Corrected<Hardware>>,
}

impl SystemClock {
    /// Starts a clock at the current time of day.
    #[must_use]
    pub fn new() -> Self {
        let time = Arc::new(Corrected::new(Hardware::new()));
        Self {
            epoch: SystemTime::now().into(),
            time,
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        #[cfg(feature = "testing")]
        if let Some(us) = crate::simulated::now() {
            return Timestamp(us);
        }
        Timestamp(self.epoch.0 + self.time.elapsed() / 1000)
    }
}

impl fmt::Debug for SystemClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemClock")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// A fast counter, and the monotonic clock by which it is corrected.
trait Clocks {
    /// Returns the approximate number of nanoseconds in 2³² ticks of the counter.
    fn nominal(&self) -> u64;

    /// The counter.
    fn counter(&self) -> u64;

    /// Nanoseconds of the monotonic clock since some instant.
    fn monotonic(&self) -> u64;
}

struct Hardware {
    counter: quanta::Clock,
    start: Instant,
}

impl Hardware {
    fn new() -> Self {
        Self {
            counter: quanta::Clock::new(),
            start: Instant::now(),
        }
    }
}

impl Clocks for Hardware {
    fn nominal(&self) -> u64 {
        self.counter.delta_as_nanos(0, 1 << 32)
    }

    #[inline]
    fn counter(&self) -> u64 {
        self.counter.raw()
    }

    fn monotonic(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The time since its creation, by a counter that is corrected regularly.
struct Corrected<C> {
    clocks: C,
    nominal: u64,
    line: Published,
    /// Held only to replace the line, not while the clocks are read.
    replacing: Mutex<()>,
}

impl<C: Clocks> Corrected<C> {
    fn new(clocks: C) -> Self {
        let nominal = clocks.nominal().max(1);
        let line = ClockLine::first(sample(&clocks, nominal), nominal);
        Self {
            clocks,
            nominal,
            line: Published::new(line),
            replacing: Mutex::default(),
        }
    }

    /// Returns the nanoseconds of the monotonic clock, as closely as they are known.
    #[inline]
    fn elapsed(&self) -> u64 {
        let counter = self.clocks.counter();
        match self.line.load().at(counter) {
            Some(time) => time,
            None => self.correct(),
        }
    }

    /// Replaces a line that is over, by a new reading of the monotonic clock.
    ///
    /// Each thread that finds the line over reads the clocks itself, without the lock. If it waited for another thread to
    /// do so, the scheduler could keep both waiting. If it used the end of the line meanwhile, it would be behind by the
    /// whole time in which nobody has asked.
    #[cold]
    fn correct(&self) -> u64 {
        loop {
            let line = self.line.load();
            // Another thread may have replaced it already.
            if let Some(time) = line.at(self.clocks.counter()) {
                return time;
            }
            let next = line.next(sample(&self.clocks, self.nominal), self.nominal);
            if self.replace(line, next) {
                return next.time;
            }
        }
    }

    /// Replaces a line by the next one, unless another thread has replaced it already.
    fn replace(&self, line: ClockLine, next: ClockLine) -> bool {
        let _replacing = self.replacing.lock();
        let is_current = self.line.load() == line;
        if is_current {
            self.line.store(next);
        }
        is_current
    }
}

/// Reads both clocks. If the thread was interrupted between the two, it reads them again.
fn sample(clocks: &impl Clocks, nominal: u64) -> ClockSample {
    const TRIES: usize = 5;
    const CLOSE_NS: u64 = 1_000;
    let mut best = read(clocks);
    for _ in 1..TRIES {
        if scale(best.0, nominal) <= CLOSE_NS {
            break;
        }
        let other = read(clocks);
        if other.0 < best.0 {
            best = other;
        }
    }
    best.1
}

/// Reads both clocks once, and returns the ticks that this took.
fn read(clocks: &impl Clocks) -> (u64, ClockSample) {
    let before = clocks.counter();
    let elapsed = clocks.monotonic();
    let ticks = clocks.counter().wrapping_sub(before);
    let counter = before.wrapping_add(ticks / 2);
    (ticks, ClockSample { counter, elapsed })
}

#[cfg(test)]
mod tests;
