//! Clocks: the time in whole microseconds since the Unix epoch.
//!
//! A backend has its own clock: [`SystemClock`] in memory, the server's clock on Redis. A [`Limiter`](crate::Limiter)
//! with a [`Clock`] uses that instead, on every backend. Tests use a [`ManualClock`] and never sleep:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limit, Limiter, Limits, MemoryBackend, Transaction, clock::ManualClock};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let limits = Limits::builder().limit("login", Limit::per_minute(1)).build()?;
//! let clock = ManualClock::at("2026-01-01T00:00:00Z");
//! let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
//!
//! let alice = Transaction::new("login", "alice");
//! assert!(limiter.spend(&alice).await?.allowed());
//! assert!(!limiter.spend(&alice).await?.allowed());
//! clock.advance(Duration::from_secs(60));
//! assert!(limiter.spend(&alice).await?.allowed());
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Callers that [wait in line](crate::limiter::LimitHandle::acquire) use tokio's clock for that. A test that pauses tokio's clock
//! uses a [`TokioClock`].

pub(crate) mod date;
mod system;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

pub use self::system::SystemClock;

/// An instant, in whole microseconds since the Unix epoch.
///
/// ```
/// use tollgate::clock::Timestamp;
///
/// let new_year = Timestamp::from_micros(1_767_225_600_000_000); // 2026-01-01T00:00:00Z
/// assert!(new_year < Timestamp::END);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The first instant that is out of range: 2⁵² µs, in the year 2112.
    ///
    /// An earlier instant plus the deepest debt is below 2⁵³, so every store can keep it exactly.
    pub const END: Self = Self(1 << 52);

    /// The instant `us` microseconds after the Unix epoch.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us)
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the instant after a duration, or the last one that can be represented.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::clock::Timestamp;
    ///
    /// let start = Timestamp::from_micros(5);
    /// let minute = Duration::from_secs(60);
    /// assert_eq!(start.saturating_add(minute).saturating_duration_since(start), minute);
    /// ```
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(us))
    }

    /// Returns the time since an earlier instant, or zero if that one is later.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// Reads a date for a clock of a test.
    #[track_caller]
    fn of_date(date: &str) -> Self {
        match date::seconds(date).map(u64::try_from) {
            Some(Ok(seconds)) => Self(seconds * 1_000_000),
            _ => panic!("`{date}` is not a time since 1970: write it as `2026-01-01T00:00:00Z`"),
        }
    }

    /// Returns whether anything can be decided at this instant.
    #[inline(always)]
    pub(crate) const fn is_valid(self) -> bool {
        self.0 < Self::END.0
    }
}

impl From<SystemTime> for Timestamp {
    /// Rounds down to microseconds; a time before 1970 is the epoch itself.
    fn from(time: SystemTime) -> Self {
        Self(micros(time.duration_since(UNIX_EPOCH).unwrap_or_default()))
    }
}

/// A source of time, for [`Limiter::with_clock`](crate::Limiter::with_clock).
///
/// It should not step back, because charges of later instants count until these instants have passed again.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The current instant.
    fn now(&self) -> Timestamp;
}

/// An instant as a clock that stands still.
impl Clock for Timestamp {
    fn now(&self) -> Timestamp {
        *self
    }
}

/// A clock that stands still until it is moved, for tests. Clones share the time. The [module docs](self) have an
/// example.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.0)))
    }

    /// A clock that shows a date and time in UTC.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::clock::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::at("2026-03-31T23:59:59Z");
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(clock.now(), ManualClock::at("2026-04-01T00:00:00Z").now());
    /// ```
    ///
    /// # Panics
    ///
    /// If the text is not such a date, or one before 1970.
    #[must_use]
    #[track_caller]
    pub fn at(date: &str) -> Self {
        Self::new(Timestamp::of_date(date))
    }

    /// Moves the clock to `now`, forwards or back.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }

    /// Moves the clock forwards, by whole microseconds. It stops at the last instant that can be represented, which is out of range
    /// for decisions.
    pub fn advance(&self, by: Duration) {
        let later = |now: u64| Some(now.saturating_add(micros(by)));
        let _ = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
    }
}

impl Default for ManualClock {
    /// A clock that shows the first instant of 2026.
    fn default() -> Self {
        Self::new(Timestamp(1_767_225_600_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// tokio's clock, for tests that pause it. Clones share the time.
///
/// While tokio's clock is paused, it stands still until every task waits, and then jumps to the end of the first wait.
/// [`LimitHandle::acquire`](crate::limiter::LimitHandle::acquire) and layers wait by tokio's clock, so a limiter in such a test needs the same
/// clock. Otherwise no time passes for the limiter during a wait, and the next wait is too long.
///
/// ```
/// use std::time::Duration;
/// use tokio::time::Instant;
/// use tollgate::{Limit, Limiter, Limits, MemoryBackend, clock::TokioClock};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
/// let line = Limit::per_second(2).burst(1).max_wait(Duration::from_secs(60));
/// let limits = Limits::builder().limit("jobs", line).build()?;
/// let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(TokioClock::default());
/// let jobs = limiter.limit("jobs")?;
///
/// let began = Instant::now();
/// for job in 0..8 {
///     assert!(jobs.acquire("worker").await?.allowed());
///     assert_eq!(began.elapsed(), job * Duration::from_millis(500));
/// }
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TokioClock {
    began: Instant,
    start: Timestamp,
}

impl TokioClock {
    /// A clock that shows `start` now.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self {
            began: Instant::now(),
            start,
        }
    }

    /// A clock that shows a date and time with its offset from UTC now, as [`ManualClock::at`] reads them.
    ///
    /// # Panics
    ///
    /// As [`ManualClock::at`].
    #[must_use]
    #[track_caller]
    pub fn at(date: &str) -> Self {
        Self::new(ManualClock::at(date).now())
    }
}

impl Default for TokioClock {
    /// A clock that shows the first instant of 2026 now.
    fn default() -> Self {
        Self::new(ManualClock::default().now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.start.saturating_add(self.began.elapsed())
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_that_cannot_be_read_panics_with_the_form_to_write() {
        for date in ["2026-01-01", "yesterday", "1969-12-31T23:59:59Z"] {
            let panic = std::panic::catch_unwind(|| ManualClock::at(date)).unwrap_err();
            let message = panic.downcast_ref::<String>().unwrap();
            let expected = format!("`{date}` is not a time since 1970: write it as");
            assert!(message.starts_with(&expected), "{message}");
        }
    }
}
