use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::limiter::LimiterError;

/// For so long after it was told that a layer cannot decide, it is not told again: a store may come and go.
const PAUSE: Duration = Duration::from_secs(10);

/// Whether a layer can decide, so that it is logged when that changes and not on each request.
#[derive(Debug, Default)]
pub(super) struct Health {
    failing: AtomicBool,
    told: Mutex<Told>,
    misused: AtomicBool,
    idle: AtomicBool,
}

#[derive(Debug, Default)]
struct Told {
    at: Option<Instant>,
    /// Whether what was told last is that it fails.
    fails: bool,
}

impl Health {
    /// Tells of a layer that does nothing.
    pub(super) fn idle(&self) {
        if !self.idle.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a RateLimitLayer without rules limits nothing: add one with `.rule(..)`"
            );
        }
    }

    #[inline]
    pub(super) fn decided(&self) {
        if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if std::mem::take(&mut told.fails) {
                tracing::info!("rate limits are decided again");
            }
        }
    }

    pub(super) fn failed(&self, error: &LimiterError) {
        match error {
            LimiterError::Backend(error) => {
                if self.failing.swap(true, Ordering::Relaxed) {
                    return;
                }
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                if told.at.is_none_or(|at| at.elapsed() > PAUSE) {
                    (told.at, told.fails) = (Some(Instant::now()), true);
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
