use std::sync::atomic::{AtomicBool, Ordering};

use crate::limiter::LimiterError;

/// Whether a layer can decide, so that it is logged when that changes and not on each request.
#[derive(Debug, Default)]
pub(super) struct Health {
    failing: AtomicBool,
    misused: AtomicBool,
}

impl Health {
    #[inline]
    pub(super) fn decided(&self) {
        if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!("rate limits are decided again");
        }
    }

    pub(super) fn failed(&self, error: &LimiterError) {
        match error {
            LimiterError::Backend(error) => {
                if !self.failing.swap(true, Ordering::Relaxed) {
                    let source = std::error::Error::source(error).map(tracing::field::display);
                    tracing::error!(%error, source, "rate limits cannot be decided");
                }
            }
            // The client asks for more than can be had, and is told so.
            LimiterError::CostAboveBurst { .. } => {}
            error => {
                if !self.misused.swap(true, Ordering::Relaxed) {
                    tracing::error!(%error, "requests are refused by a mistake in their rules");
                }
            }
        }
    }
}
