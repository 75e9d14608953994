//! Counts the tokens that a call has used so far.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

/// Counts the tokens of one call.
#[derive(Debug)]
pub(crate) struct Meter {
    /// The estimate of the prompt.
    prompt: u32,
    /// The price of a prompt's token that the server has cached, in per cent of another one's.
    cached_percent: u32,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
enum Progress {
    /// The call has not been sent to the server, so it costs nothing.
    Unsent,
    /// Nothing is known yet: the reservation stays.
    Reserved,
    /// A stream has begun, with this estimated number of tokens so far.
    Streaming(u32),
    /// The server has said how many tokens there were.
    Reported(u32),
    /// The server has failed.
    Failed,
}

/// The usage that an answer or an event reports.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Usage {
    total_tokens: u64,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

impl Usage {
    /// The price of the tokens, of which the cached ones cost a part.
    fn price(self, cached_percent: u32) -> u32 {
        let details = self.prompt_tokens_details;
        let cached = details.and_then(|details| details.cached_tokens);
        let cached = u128::from(cached.unwrap_or(0).min(self.total_tokens));
        let discounted = (cached * u128::from(cached_percent)).div_ceil(100);
        let price = u128::from(self.total_tokens) - cached + discounted;
        u32::try_from(price).unwrap_or(u32::MAX)
    }
}

impl Meter {
    pub(crate) fn new(prompt: u32, cached_percent: u32) -> Self {
        Self {
            prompt,
            cached_percent,
            progress: Mutex::new(Progress::Unsent),
        }
    }

    pub(crate) fn send(&self) {
        *self.lock() = Progress::Reserved;
    }

    pub(crate) fn fail(&self) {
        *self.lock() = Progress::Failed;
    }

    pub(crate) fn begin_stream(&self) {
        *self.lock() = Progress::Streaming(0);
    }

    /// Counts text of a stream. The reported usage takes precedence.
    pub(crate) fn see(&self, tokens: u32) {
        if let Progress::Streaming(seen) = &mut *self.lock() {
            *seen = seen.saturating_add(tokens);
        }
    }

    /// Records the usage that the server reports. The last report counts, unless the server has failed.
    pub(crate) fn report(&self, usage: Usage) {
        let mut progress = self.lock();
        if !matches!(*progress, Progress::Failed) {
            *progress = Progress::Reported(usage.price(self.cached_percent));
        }
    }

    /// The tokens of the call, or `None` if its reservation stays.
    pub(crate) fn used(&self) -> Option<u32> {
        match *self.lock() {
            Progress::Reserved => None,
            Progress::Streaming(seen) => Some(self.prompt.saturating_add(seen)),
            Progress::Reported(tokens) => Some(tokens),
            Progress::Unsent | Progress::Failed => Some(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
