//! Whether the store is asked at all: a circuit breaker.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::metrics;

/// The pause after which a store is tried again for the first time, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// After so long, a probe of which nothing was heard is given up. Its caller has perhaps stopped to poll it.
const PROBE: Duration = Duration::from_secs(5);

/// A store that comes and goes is told of no more often.
const QUIET: Duration = Duration::from_secs(10);

/// Opens after a number of failures in a row. While it is open, one call at a time is let through to see whether the
/// store is back, after pauses that grow and vary.
#[derive(Debug)]
pub(super) struct Breaker {
    threshold: u32,
    failures: AtomicU32,
    is_open: AtomicBool,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    /// When the next probe is let through. While there is one, that is when it is given up.
    retry_at: Instant,
    pause: Duration,
    /// When it was last told of, and whether it still is to be told that it has closed.
    told_at: Option<Instant>,
    is_told: bool,
}

impl Open {
    /// Tells that the store does not answer, unless that was told and taken back a moment ago.
    fn tell(&mut self, error: &dyn fmt::Display) {
        let now = Instant::now();
        let is_soon = self.told_at.is_some_and(|at| now < at + QUIET);
        if !self.is_told && !is_soon {
            (self.told_at, self.is_told) = (Some(now), true);
            tracing::warn!(%error, "the rate limit store does not answer: deciding without it");
        }
    }
}

impl Breaker {
    pub(super) fn new(threshold: u32) -> Self {
        Self {
            threshold,
            failures: AtomicU32::new(0),
            is_open: AtomicBool::new(false),
            open: Mutex::new(Open {
                retry_at: Instant::now(),
                pause: PAUSES.0,
                told_at: None,
                is_told: false,
            }),
        }
    }

    /// Lets a call through, unless the store is known not to answer.
    #[inline]
    pub(super) fn admit(&self) -> Option<Pass<'_>> {
        if !self.is_open.load(Ordering::Acquire) {
            return Some(Pass {
                breaker: self,
                is_probe: false,
            });
        }
        let mut open = self.lock();
        let now = Instant::now();
        (now >= open.retry_at).then(|| {
            open.retry_at = now + PROBE;
            Pass {
                breaker: self,
                is_probe: true,
            }
        })
    }

    /// Whether the next call would be let through.
    #[inline]
    pub(super) fn admits(&self) -> bool {
        if !self.is_open.load(Ordering::Acquire) {
            return true;
        }
        Instant::now() >= self.lock().retry_at
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    fn close(&self) {
        self.failures.store(0, Ordering::Relaxed);
        if self.is_open.swap(false, Ordering::AcqRel) {
            metrics::circuit_is("closed");
            if std::mem::take(&mut self.lock().is_told) {
                tracing::info!("the rate limit store answers again");
            }
        }
    }

    fn count_failure(&self, error: &dyn fmt::Display) {
        let failures = self
            .failures
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1);
        if failures < self.threshold || self.is_open.load(Ordering::Acquire) {
            return;
        }
        let mut open = self.lock();
        if !self.is_open.swap(true, Ordering::AcqRel) {
            open.pause = PAUSES.0;
            open.retry_at = Instant::now() + varied(open.pause);
            metrics::circuit_is("open");
            open.tell(error);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was let through. It ends by saying how it went, or by being dropped, which says nothing.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    breaker: &'a Breaker,
    is_probe: bool,
}

impl Pass<'_> {
    pub(super) fn succeeded(mut self) {
        self.is_probe = false;
        if self.breaker.failures.load(Ordering::Relaxed) > 0 {
            self.breaker.close();
        }
    }

    pub(super) fn failed(mut self, error: &dyn fmt::Display) {
        if !std::mem::take(&mut self.is_probe) {
            return self.breaker.count_failure(error);
        }
        let mut open = self.breaker.lock();
        open.pause = (open.pause * 2).min(PAUSES.1);
        open.retry_at = Instant::now() + varied(open.pause);
        if self.breaker.is_open() {
            open.tell(error);
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_probe {
            self.breaker.lock().retry_at = Instant::now();
        }
    }
}

/// Between half of a pause and the whole, so that the processes of a fleet do not come back at one moment.
fn varied(pause: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) % 512;
    pause * (512 + u32::try_from(random).unwrap_or(0)) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn opens_after_failures_in_a_row_and_probes_one_at_a_time() {
        let breaker = Breaker::new(3);
        let fail = || breaker.admit().unwrap().failed(&"lost");
        fail();
        fail();
        breaker.admit().unwrap().succeeded();
        fail();
        fail();
        assert!(breaker.admits(), "not in a row");
        fail();
        assert!(breaker.admit().is_none() && !breaker.admits());
        for pause in [100, 200, 400, 800, 1000, 1000] {
            tokio::time::advance(Duration::from_millis(pause / 2 - 1)).await;
            assert!(breaker.admit().is_none(), "before half of {pause} ms");
            tokio::time::advance(Duration::from_millis(pause / 2 + 1)).await;
            let probe = breaker.admit().unwrap();
            assert!(breaker.admit().is_none(), "one at a time");
            probe.failed(&"lost");
        }
        tokio::time::advance(PAUSES.1).await;
        drop(breaker.admit().unwrap());
        breaker.admit().unwrap().succeeded();
        assert!(breaker.admit().is_some() && breaker.admit().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn probe_that_nobody_polls_does_not_keep_others_away() {
        let breaker = Breaker::new(1);
        breaker.admit().unwrap().failed(&"lost");
        tokio::time::advance(PAUSES.0).await;
        let _held = breaker.admit().unwrap();
        assert!(!breaker.admits());
        tokio::time::advance(PROBE).await;
        breaker.admit().unwrap().succeeded();
        assert!(breaker.admits());
    }
}
