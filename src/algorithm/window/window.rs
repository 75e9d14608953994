use std::time::Duration;

use super::window_error::WindowError;
use crate::algorithm::{
    limit_error::{LimitError, NotationError},
    ticks::MAX_TICKS_US,
};

/// The validated parameters of a sliding window. [`Limit::window`](crate::Limit::window) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    limit: u32,
    us: u64,
}

impl Window {
    /// The most units that a bucket remembers, and so the highest limit.
    pub const MAX_UNITS: u32 = 4096;

    /// At most `limit` units within any span of the length `window`.
    ///
    /// # Errors
    ///
    /// If the limit is 0 or above [`MAX_UNITS`](Self::MAX_UNITS), or if the window is 0, is not a whole number of
    /// microseconds, or is above 2⁵¹ of them (71 years).
    pub const fn new(limit: u32, window: Duration) -> Result<Self, LimitError> {
        match Self::checked(limit, window) {
            Ok(window) => Ok(window),
            Err(error) => Err(LimitError::new(NotationError::Window(error))),
        }
    }

    pub(crate) const fn checked(limit: u32, window: Duration) -> Result<Self, WindowError> {
        if limit == 0 {
            return Err(WindowError::ZeroLimit);
        }
        if limit > Self::MAX_UNITS {
            return Err(WindowError::TooManyToRemember(limit));
        }
        if window.is_zero() {
            return Err(WindowError::ZeroWindow);
        }
        if !window.subsec_nanos().is_multiple_of(1000) {
            return Err(WindowError::TooFine);
        }
        if window.as_micros() > MAX_TICKS_US as u128 {
            return Err(WindowError::TooLong);
        }
        let us = window.as_secs() * 1_000_000 + window.subsec_micros() as u64;
        Ok(Self { limit, us })
    }

    /// Returns the most units that can be taken within any window, without debits.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the time for which a unit counts.
    #[must_use]
    pub const fn window(&self) -> Duration {
        Duration::from_micros(self.us)
    }

    /// Returns the same window with another limit.
    #[cfg(feature = "failure-policy")]
    pub(super) const fn with_limit(self, limit: u32) -> Self {
        Self { limit, ..self }
    }

    /// Returns the instant at which a unit taken at `instant` stops counting.
    pub(super) const fn end(&self, instant: u64) -> u64 {
        instant.saturating_add(self.us)
    }
}
