use tokio::time::Instant;

use super::{Clock, ManualClock, Timestamp};

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
