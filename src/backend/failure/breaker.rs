//! A circuit breaker, which decides whether the store is asked at all.

use std::fmt;

use tokio::time::Instant;

use super::{
    circuit::{Admitted, Circuit, End, Ended, Turned, micros},
    server_name::ServerName,
};
use crate::{
    metrics,
    outage_log::{OutageLog, Transition},
    random,
};

/// A [`Circuit`] with a clock. Counts and logs its transitions.
#[derive(Debug)]
pub(super) struct Breaker {
    circuit: Circuit,
    made_at: Instant,
    log: OutageLog,
}

impl Breaker {
    pub(super) fn new(threshold: u32) -> Self {
        Self {
            circuit: Circuit::new(threshold),
            made_at: Instant::now(),
            log: OutageLog::default(),
        }
    }

    /// Lets a call through, unless the store is known not to answer.
    #[inline]
    pub(super) fn admit<'a>(&'a self, address: Option<ServerName<'a>>) -> Option<Pass<'a>> {
        let call = self.circuit.admit(|| self.now())?;
        Some(self.pass(call, address))
    }

    /// Returns the pass of a call that began while the breaker was closed.
    pub(super) fn admitted<'a>(&'a self, address: Option<ServerName<'a>>) -> Pass<'a> {
        self.pass(Admitted::CLOSED, address)
    }

    /// Returns whether the next call would be let through.
    #[inline]
    pub(super) fn admits(&self) -> bool {
        self.circuit.admits(|| self.now())
    }

    pub(super) fn is_open(&self) -> bool {
        self.circuit.is_open()
    }

    /// Returns whether it is closed, and no call has failed since the last success.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.circuit.is_calm()
    }

    fn pass<'a>(&'a self, call: Admitted, address: Option<ServerName<'a>>) -> Pass<'a> {
        Pass {
            breaker: self,
            address,
            call: Some(call),
        }
    }

    fn now(&self) -> u64 {
        micros(self.made_at.elapsed())
    }

    fn ended(
        &self,
        call: Admitted,
        ended: Ended,
        address: Option<ServerName<'_>>,
        error: Option<&dyn fmt::Display>,
    ) {
        let at = || End {
            now: self.now(),
            part: part(),
        };
        let turned = self.circuit.ended(call, ended, at);
        match turned {
            Some(Turned::Opened) => metrics::circuit_is("open"),
            Some(Turned::Closed) => metrics::circuit_is("closed"),
            None => {}
        }
        // An outage that begins soon after the last one is not logged at first, but is logged if it lasts.
        if turned.is_some() || (error.is_some() && self.is_open()) {
            self.write_log(address, error);
        }
    }

    fn write_log(&self, address: Option<ServerName<'_>>, error: Option<&dyn fmt::Display>) {
        let now = Instant::now().into_std();
        let server = address.and_then(|address| address.text());
        let server = server.as_deref();
        self.log.update(
            now,
            || self.is_open(),
            |transition| match transition {
                Transition::Begins => {
                    let error = error.map(tracing::field::display);
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
    breaker: &'a Breaker,
    /// The server, if there are several.
    address: Option<ServerName<'a>>,
    call: Option<Admitted>,
}

impl<'a> Pass<'a> {
    pub(super) fn address(&self) -> Option<ServerName<'a>> {
        self.address
    }

    pub(super) fn succeeded(mut self) {
        self.end(Ended::Succeeded, None);
    }

    pub(super) fn failed(mut self, error: &dyn fmt::Display) {
        self.end(Ended::Failed, Some(error));
    }

    fn end(&mut self, ended: Ended, error: Option<&dyn fmt::Display>) {
        if let Some(call) = self.call.take() {
            self.breaker.ended(call, ended, self.address, error);
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.end(Ended::Dropped, None);
    }
}

/// Returns a random part of a pause, at least half of it, so that the processes of a fleet do not return at the same moment.
fn part() -> u32 {
    512 + u32::try_from(random::number() % 512).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::circuit::{PAUSES, PROBE},
        *,
    };

    #[tokio::test(start_paused = true)]
    async fn opens_after_failures_in_a_row_and_probes_one_at_a_time() {
        let breaker = Breaker::new(3);
        let fail = || breaker.admit(None).unwrap().failed(&"lost");
        fail();
        fail();
        breaker.admit(None).unwrap().succeeded();
        fail();
        fail();
        assert!(breaker.admits(), "not in a row");
        fail();
        assert!(breaker.admit(None).is_none() && !breaker.admits());
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
        let breaker = Breaker::new(1);
        breaker.admit(None).unwrap().failed(&"lost");
        tokio::time::advance(PAUSES.0).await;
        let _held = breaker.admit(None).unwrap();
        assert!(!breaker.admits());
        tokio::time::advance(PROBE).await;
        breaker.admit(None).unwrap().succeeded();
        assert!(breaker.admits());
    }
}
