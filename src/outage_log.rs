//! Logs when something stops working and when it works again.

use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// The least time between two logged outages, so that a store that comes and goes does not fill the log.
const QUIET: Duration = Duration::from_secs(10);

/// A line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    Begins,
    Ends,
}

/// Logs the beginning and the end of each outage once, at most one outage every ten seconds.
///
/// The log follows the state that is passed to [`update`](Self::update). After the last update, the last line shows the
/// current state, whatever the order of the threads.
#[derive(Debug, Default)]
pub(crate) struct OutageLog(Mutex<Logged>);

#[derive(Debug, Default)]
struct Logged {
    is_out: bool,
    begun_at: Option<Instant>,
    is_writing: bool,
}

impl OutageLog {
    /// Writes a line if the log does not show the state that `is_out` returns.
    ///
    /// `write` runs without the lock, so a subscriber may call back into the code that logs here. Only one thread
    /// writes at a time. That thread also writes the changes that others make in the meantime.
    pub(crate) fn update(
        &self,
        now: Instant,
        is_out: impl Fn() -> bool,
        write: impl Fn(Transition),
    ) {
        loop {
            // `is_out` is called under the lock, so that the last thread sees the last state.
            let next = self.lock().next(now, &is_out);
            let Some(transition) = next else { return };
            let _writing = Writing(self);
            write(transition);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Logged> {
        self.0.lock()
    }
}

impl Logged {
    fn next(&mut self, now: Instant, is_out: impl Fn() -> bool) -> Option<Transition> {
        let is_out = is_out();
        let is_soon = self
            .begun_at
            .is_some_and(|at| now.saturating_duration_since(at) < QUIET);
        if self.is_writing || self.is_out == is_out || (is_out && is_soon) {
            return None;
        }
        (self.is_writing, self.is_out) = (true, is_out);
        if !is_out {
            return Some(Transition::Ends);
        }
        self.begun_at = Some(now);
        Some(Transition::Begins)
    }
}

/// A thread that writes. Others write again even if this one panics.
struct Writing<'a>(&'a OutageLog);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.lock().is_writing = false;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        panic::{AssertUnwindSafe, catch_unwind},
    };

    use super::*;

    #[test]
    fn change_during_a_line_is_the_next_line() {
        let (log, is_out) = (OutageLog::default(), Cell::new(true));
        let lines = RefCell::new(Vec::new());
        let write = |line| {
            lines.borrow_mut().push(line);
            is_out.set(false);
            log.update(Instant::now(), || is_out.get(), |_| panic!("not within"));
        };
        log.update(Instant::now(), || is_out.get(), write);
        assert_eq!(lines.take(), [Transition::Begins, Transition::Ends]);
    }

    #[test]
    fn subscriber_that_panics_does_not_end_the_log() {
        let log = OutageLog::default();
        let panics = || log.update(Instant::now(), || true, |_| panic!("a subscriber"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        let lines = Cell::new(0);
        log.update(Instant::now(), || false, |_| lines.set(lines.get() + 1));
        assert_eq!(lines.get(), 1);
    }
}
