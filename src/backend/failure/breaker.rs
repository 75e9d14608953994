//! A circuit breaker, which decides whether the store is asked at all, and the record of the decisions without the store.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::circuit::{Admitted, Circuit, End, Ended, Turned, micros};
use crate::{
    backend::{ServerId, Servers},
    metrics,
    outage_log::{OutageLog, Transition},
    random,
};

/// The time for which a decision without the store is shown, so that gauges show a store that fails every few calls.
const SHOWN: Duration = Duration::from_secs(1);

/// The time after which a store that has moved is announced. Its client usually finds the new one sooner.
const MOMENT: Duration = Duration::from_millis(500);

/// A [`Circuit`] with a clock. Counts its transitions, and logs each period of decisions without the store, whatever the
/// reason.
#[derive(Debug)]
pub(super) struct Breaker {
    circuit: Circuit,
    made_at: Instant,
    /// Whether the store has decided nothing since the last decision without it.
    is_passed_over: AtomicBool,
    /// The time of the last decision without the store, in microseconds since the creation, plus 1; 0 if there was none.
    passed_over_at: AtomicU64,
    /// The time since which the store is being located, like `passed_over_at`.
    moving_since: AtomicU64,
    /// Whether its server is gone. Calls that were on their way then change nothing.
    is_retired: AtomicBool,
    log: OutageLog,
}

impl Breaker {
    /// Creates a breaker for calls with a deadline.
    pub(super) fn new(threshold: u32, deadline: Duration) -> Self {
        Self {
            circuit: Circuit::new(threshold, deadline),
            made_at: Instant::now(),
            is_passed_over: AtomicBool::new(false),
            passed_over_at: AtomicU64::new(0),
            moving_since: AtomicU64::new(0),
            is_retired: AtomicBool::new(false),
            log: OutageLog::default(),
        }
    }

    /// Lets a call through, unless the store is known not to answer.
    #[inline]
    pub(super) fn admit<'a>(self: &Arc<Self>, address: Option<ServerName<'a>>) -> Option<Pass<'a>> {
        let call = self.circuit.admit(|| self.now())?;
        Some(self.pass(call, address))
    }

    /// Returns the pass of a call that began while the breaker was closed.
    pub(super) fn admitted<'a>(self: &Arc<Self>, address: Option<ServerName<'a>>) -> Pass<'a> {
        self.pass(Admitted::CLOSED, address)
    }

    pub(super) fn is_open(&self) -> bool {
        self.circuit.is_open()
    }

    /// Returns whether decisions are made without the store: the breaker is open, the store has decided nothing since the
    /// last decision without it, or that was within the last second.
    pub(super) fn is_shown(&self) -> bool {
        let at = self.passed_over_at.load(Ordering::Relaxed).checked_sub(1);
        let is_recent = |at| self.now().saturating_sub(at) < micros(SHOWN);
        self.is_fallback() || at.is_some_and(is_recent)
    }

    /// Returns whether it is closed, the last decision was the store's, and no call has failed since the last success.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.circuit.is_calm()
            && !self.is_passed_over.load(Ordering::Relaxed)
            && self.moving_since.load(Ordering::Relaxed) == 0
    }

    /// Records a decision that was made without asking the store.
    pub(super) fn passed_over(&self, address: Option<ServerName<'_>>, reason: &dyn fmt::Display) {
        if self.is_retired.load(Ordering::Relaxed) {
            return;
        }
        self.is_passed_over.store(true, Ordering::Relaxed);
        self.passed_over_at
            .store(self.now().saturating_add(1), Ordering::Relaxed);
        // An outage that begins soon after the last one is not logged at first, but is logged if it lasts.
        self.write_log(address, Some(reason));
    }

    /// Records a decision that was made while the store is being located. A moment of that is not worth a line.
    fn moved(&self, address: Option<ServerName<'_>>, reason: &dyn fmt::Display) {
        let now = self.now();
        let first = self.moving_since.compare_exchange(
            0,
            now.saturating_add(1),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        let since = first.unwrap_or_else(|since| since - 1);
        if first.is_err() && now.saturating_sub(since) >= micros(MOMENT) {
            self.passed_over(address, reason);
        }
    }

    /// Closes the breaker of a server that is gone, and ends the period of decisions without it.
    pub(super) fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
        self.reset();
    }

    /// Closes the breaker, and ends the period of decisions without the store.
    pub(super) fn reset(&self) {
        self.passed_over_at.store(0, Ordering::Relaxed);
        self.succeeded(Admitted::CLOSED, None);
    }

    fn pass<'a>(self: &Arc<Self>, call: Admitted, address: Option<ServerName<'a>>) -> Pass<'a> {
        Pass {
            breaker: Arc::clone(self),
            address,
            call: Some(call),
        }
    }

    fn now(&self) -> u64 {
        micros(self.made_at.elapsed())
    }

    fn is_fallback(&self) -> bool {
        self.is_open() || self.is_passed_over.load(Ordering::Relaxed)
    }

    fn succeeded(&self, call: Admitted, address: Option<ServerName<'_>>) {
        self.turn(call, Ended::Succeeded);
        self.moving_since.store(0, Ordering::Relaxed);
        if self.is_passed_over.swap(false, Ordering::Relaxed) {
            self.write_log(address, None);
        }
    }

    /// Counts the end of a call.
    fn turn(&self, call: Admitted, ended: Ended) {
        let at = || End {
            now: self.now(),
            part: part(),
        };
        match self.circuit.ended(call, ended, at) {
            Some(Turned::Opened) => metrics::circuit_is("open"),
            Some(Turned::Closed) => metrics::circuit_is("closed"),
            None => {}
        }
    }

    fn write_log(&self, address: Option<ServerName<'_>>, reason: Option<&dyn fmt::Display>) {
        let now = Instant::now().into_std();
        let server = address.and_then(|address| address.text());
        let server = server.as_deref();
        self.log.update(
            now,
            || self.is_fallback(),
            |transition| match transition {
                Transition::Begins => {
                    let error = reason.map(tracing::field::display);
                    tracing::warn!(
                        error,
                        server,
                        "the rate limit store does not answer: deciding without it"
                    );
                }
                Transition::Ends => tracing::info!(server, "the rate limit store answers again"),
            },
        );
    }
}

/// A call that was let through. It ends with a result, or by being dropped. A dropped call counts as neither success
/// nor failure.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    breaker: Arc<Breaker>,
    /// The server, if there are several.
    address: Option<ServerName<'a>>,
    call: Option<Admitted>,
}

impl<'a> Pass<'a> {
    pub(super) fn address(&self) -> Option<ServerName<'a>> {
        self.address
    }

    pub(super) fn succeeded(mut self) {
        if let Some(call) = self.call.take()
            && !self.is_void()
        {
            self.breaker.succeeded(call, self.address);
        }
    }

    /// Counts a failure. The caller decides without the store.
    pub(super) fn failed(mut self, reason: &dyn fmt::Display) {
        if let Some(call) = self.call.take()
            && !self.is_void()
        {
            self.breaker.turn(call, Ended::Failed);
            self.breaker.passed_over(self.address, reason);
        }
    }

    /// Ends the call without a failure of the server. The caller decides without the store.
    pub(super) fn moved(self, reason: &dyn fmt::Display) {
        self.breaker.moved(self.address, reason);
    }

    fn is_void(&self) -> bool {
        self.breaker.is_retired.load(Ordering::Relaxed)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            self.breaker.turn(call, Ended::Dropped);
        }
    }
}

/// The name of a server in logs.
#[derive(Clone, Copy)]
pub(super) struct ServerName<'a> {
    servers: &'a dyn Servers,
    server: ServerId,
}

impl<'a> ServerName<'a> {
    pub(super) fn new(servers: Option<&'a dyn Servers>, server: ServerId) -> Option<Self> {
        servers.map(|servers| Self { servers, server })
    }

    pub(super) fn text(&self) -> Option<String> {
        self.servers.address(self.server)
    }

    pub(super) fn has_decided(&self, since: std::time::Instant) -> bool {
        self.servers.has_decided(self.server, since)
    }
}

impl fmt::Debug for ServerName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)
    }
}

/// Returns a random part of a pause, at least half of it, so that the processes of a fleet do not return at the same moment.
fn part() -> u32 {
    512 + u32::try_from(random::number() % 512).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{
        super::circuit::{PAUSES, PROBE},
        *,
    };

    #[tokio::test(start_paused = true)]
    async fn opens_after_failures_in_a_row_and_probes_one_at_a_time() {
        let breaker = Arc::new(Breaker::new(3, PROBE.1));
        let fail = || breaker.admit(None).unwrap().failed(&"lost");
        fail();
        fail();
        breaker.admit(None).unwrap().succeeded();
        fail();
        fail();
        assert!(breaker.admit(None).is_some(), "not in a row");
        fail();
        assert!(breaker.admit(None).is_none());
        for pause in [100, 200, 400, 800, 1000, 1000] {
            tokio::time::advance(Duration::from_millis(pause / 2 - 1)).await;
            assert!(breaker.admit(None).is_none(), "before half of {pause} ms");
            tokio::time::advance(Duration::from_millis(pause / 2 + 1)).await;
            let probe = breaker.admit(None).unwrap();
            assert!(breaker.admit(None).is_none(), "one at a time");
            probe.failed(&"lost");
        }
        tokio::time::advance(PAUSES.1).await;
        drop(breaker.admit(None).unwrap());
        breaker.admit(None).unwrap().succeeded();
        assert!(breaker.admit(None).is_some() && breaker.admit(None).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn probe_that_nobody_polls_does_not_keep_others_away() {
        let breaker = Arc::new(Breaker::new(1, PROBE.0));
        breaker.admit(None).unwrap().failed(&"lost");
        tokio::time::advance(PAUSES.0).await;
        let _held = breaker.admit(None).unwrap();
        assert!(breaker.admit(None).is_none());
        tokio::time::advance(PROBE.0).await;
        breaker.admit(None).unwrap().succeeded();
        assert!(breaker.admit(None).is_some());
    }
}
