use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use crate::{
    backend::BackendError,
    limiter::LimiterError,
    outage_log::{OutageLog, Transition},
};

/// Remembers whether a layer can decide, so that changes are logged and not each request.
#[derive(Debug, Default)]
pub(super) struct Health {
    failing: AtomicBool,
    log: OutageLog,
    has_logged_misuse: AtomicBool,
    has_logged_idleness: AtomicBool,
}

impl Health {
    /// Logs that a layer does nothing.
    pub(super) fn idle(&self) {
        if !self.has_logged_idleness.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a RateLimitLayer without rules limits nothing: add one with `.rule(..)`"
            );
        }
    }

    #[inline]
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn decided(&self) {
        if self.is_failing() && self.failing.swap(false, Ordering::Relaxed) {
            self.log(None);
        }
    }

    pub(super) fn failed(&self, error: &LimiterError) {
        match error {
            LimiterError::Backend(error) => {
                if !self.failing.swap(true, Ordering::Relaxed) {
                    self.log(Some(error));
                }
            }
            // The client asks for more than the limit can admit, and the response says so.
            LimiterError::CostAboveBurst { .. } => {}
            error => {
                if !self.has_logged_misuse.swap(true, Ordering::Relaxed) {
                    tracing::error!(%error, "requests are refused because their rules are misconfigured");
                }
            }
        }
    }

    fn log(&self, error: Option<&BackendError>) {
        self.log.update(
            Instant::now(),
            || self.is_failing(),
            |transition| match transition {
                Transition::Begins => {
                    let source = error.and_then(std::error::Error::source);
                    let source = source.map(tracing::field::display);
                    let error = error.map(tracing::field::display);
                    tracing::error!(error, source, "rate limits cannot be decided");
                }
                Transition::Ends => tracing::info!("rate limits can be decided again"),
            },
        );
    }
}
