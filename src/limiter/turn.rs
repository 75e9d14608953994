//! The instant at which a caller in line starts, by tokio's clock.

use std::{pin::Pin, time::Duration};

use super::Limiter;

pub(crate) type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The turn of a caller in line. A wait is measured by tokio's clock, and admitted by the limiter's, so it checks that the
/// second one does not stand still meanwhile.
#[cfg(feature = "tokio")]
#[derive(Clone, Debug)]
pub(crate) struct StartTime {
    at: tokio::time::Instant,
    delay: Duration,
    limiters: Option<ClockReading>,
}

/// A reading of a clock that this process can read.
#[cfg(feature = "tokio")]
#[derive(Clone, Debug)]
enum ClockReading {
    /// The backend in memory has the system's clock.
    System(std::time::Instant),
    Own(
        std::sync::Arc<dyn crate::clock::Clock>,
        crate::clock::Timestamp,
    ),
}

#[cfg(feature = "tokio")]
impl StartTime {
    /// The turn of a caller that waits for `delay` from now on.
    pub(crate) fn after(limiter: &Limiter, delay: Duration) -> Self {
        let system = || ClockReading::System(std::time::Instant::now());
        let limiters = match &limiter.clock {
            Some(clock) => Some(ClockReading::Own(clock.clone(), clock.now())),
            None => limiter.memory().map(|_| system()),
        };
        Self {
            at: tokio::time::Instant::now() + delay,
            delay,
            limiters,
        }
    }

    /// Waits for the turn.
    pub(crate) async fn wait(self) {
        crate::alarm::until(self.at).await;
        if let Some(passed) = self.limiters.as_ref().and_then(ClockReading::passed)
            && passed < self.delay / 2
        {
            self.is_out_of_step(passed);
        }
    }

    /// Reports that the limiter's clock has moved by `passed` only. It admits the next callers as if nobody had waited.
    #[cold]
    fn is_out_of_step(&self, passed: Duration) {
        let delay = self.delay;
        let remedy = "give the limiter tokio's clock with `Limiter::with_clock(TokioClock::default())`, or advance both";
        // Only tests can pause tokio's clock.
        assert!(
            crate::alarm::is_real(),
            "tokio's clock is paused: a caller has waited {delay:?} by it, but the limiter's clock has moved by {passed:?}, \
             so later callers would wait too long: {remedy}"
        );
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            tracing::error!(
                ?delay,
                ?passed,
                "a caller has waited, but the limiter's clock has hardly moved: {remedy}"
            );
        });
    }

    /// Waits for the turn, in a future that can be named.
    pub(crate) fn sleep(&self) -> Sleep {
        Box::pin(self.clone().wait())
    }
}

#[cfg(feature = "tokio")]
impl ClockReading {
    /// Returns the time since the reading, unless the clock has been set back.
    fn passed(&self) -> Option<Duration> {
        match self {
            Self::System(then) => Some(then.elapsed()),
            Self::Own(clock, then) => {
                let now = clock.now();
                (now >= *then).then(|| now.saturating_duration_since(*then))
            }
        }
    }
}

/// Without tokio, nobody can wait.
#[cfg(not(feature = "tokio"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartTime;

#[cfg(not(feature = "tokio"))]
impl StartTime {
    pub(crate) fn after(_: &Limiter, _: Duration) -> Self {
        Self
    }

    pub(crate) fn sleep(self) -> Sleep {
        let Self = self;
        Box::pin(std::future::ready(()))
    }
}
