//! Tracks whether a store is failing, and decides when to log that.

use std::{
    mem,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// An outage ends with a success this long after the last failure, so that a store that fails every few calls has one long
/// outage.
const CALM: Duration = Duration::from_secs(1);

/// The least time between two lines of a kind.
const QUIET: Duration = Duration::from_secs(10);

/// An outage from its first failure to its end. The beginning and the end are logged once, at most every ten seconds.
#[derive(Debug, Default)]
pub(crate) struct OutageLog {
    is_out: AtomicBool,
    outage: Mutex<Outage>,
    lines: LogThrottle,
}

#[derive(Debug, Default)]
struct Outage {
    last_failure: Option<Instant>,
    is_logged: bool,
}

impl OutageLog {
    /// Records a failure. Returns whether to log it as the beginning of an outage. An outage that begins soon after another one is
    /// only logged if it lasts.
    #[cold]
    pub(crate) fn failed(&self) -> bool {
        let mut outage = self.outage.lock();
        outage.last_failure = Some(Instant::now());
        self.is_out.store(true, Ordering::Relaxed);
        let begins = !outage.is_logged && self.lines.is_due();
        outage.is_logged |= begins;
        begins
    }

    /// Records a success. Returns whether to log the end of an outage whose beginning was logged.
    #[inline]
    pub(crate) fn succeeded(&self) -> bool {
        self.is_out() && self.ended()
    }

    #[inline]
    pub(crate) fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Relaxed)
    }

    #[cold]
    fn ended(&self) -> bool {
        let mut outage = self.outage.lock();
        if outage.last_failure.is_some_and(|at| at.elapsed() < CALM) {
            return false;
        }
        self.is_out.store(false, Ordering::Relaxed);
        mem::take(&mut *outage).is_logged
    }
}

/// Allows a line in the log at most every ten seconds.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Mutex<Option<Instant>>);

impl LogThrottle {
    pub(crate) fn is_due(&self) -> bool {
        let mut last = self.0.lock();
        let is_due = last.is_none_or(|last| last.elapsed() >= QUIET);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn outage_is_logged_when_it_begins_and_when_it_ends() {
        let log = OutageLog::default();
        assert!(!log.succeeded() && !log.is_out());
        assert!(log.failed() && !log.failed());
        advance(CALM / 2).await;
        assert!(!log.succeeded() && log.is_out(), "it may have just begun");
        advance(CALM / 2).await;
        assert!(log.succeeded() && !log.succeeded() && !log.is_out());
    }

    #[tokio::test(start_paused = true)]
    async fn flapping_store_does_not_fill_the_log() {
        let log = OutageLog::default();
        let mut begins = 0;
        let mut ends = 0;
        for _ in 0..60 {
            begins += u32::from(log.failed());
            advance(CALM).await;
            ends += u32::from(log.succeeded());
        }
        assert_eq!((begins, ends), (6, 6));
    }

    #[tokio::test(start_paused = true)]
    async fn outage_that_begins_soon_after_another_is_logged_if_it_lasts() {
        let log = OutageLog::default();
        log.failed();
        advance(CALM).await;
        log.succeeded();
        assert!(!log.failed() && log.is_out());
        advance(QUIET).await;
        assert!(log.failed());
    }
}
