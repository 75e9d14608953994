use std::time::Duration;

use super::concurrency_error::ConcurrencyError;
use crate::algorithm::{
    limit_error::{LimitError, NotationError},
    ticks::MAX_TICKS_US,
    window::{Units, Window, WindowError},
};

/// The validated parameters of a concurrency limit. [`Limit::concurrent`](crate::Limit::concurrent) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concurrency {
    /// The permits: a window of the limit, as long as the hold.
    pub(super) permits: Window,
    max_wait_us: u64,
}

impl Concurrency {
    /// The most permits that a bucket remembers, and so the highest limit.
    pub const MAX_PERMITS: u32 = Window::MAX_UNITS;

    /// The time for which a permit counts after it was taken or renewed, unless the limit says otherwise.
    pub const DEFAULT_HOLD: Duration = Duration::from_secs(30);

    /// The shortest hold.
    pub const MIN_HOLD: Duration = Duration::from_secs(1);

    /// The longest hold.
    pub const MAX_HOLD: Duration = Duration::from_secs(24 * 60 * 60);

    /// At most `limit` at once, each for [`DEFAULT_HOLD`](Self::DEFAULT_HOLD) after it was taken or renewed.
    ///
    /// # Errors
    ///
    /// If the limit is 0 or above [`MAX_PERMITS`](Self::MAX_PERMITS).
    pub const fn new(limit: u32) -> Result<Self, LimitError> {
        valid(Self::checked(limit))
    }

    pub(crate) const fn checked(limit: u32) -> Result<Self, ConcurrencyError> {
        match Window::checked(limit, Self::DEFAULT_HOLD) {
            Ok(permits) => Ok(Self {
                permits,
                max_wait_us: 0,
            }),
            Err(WindowError::ZeroLimit) => Err(ConcurrencyError::ZeroLimit),
            Err(_) => Err(ConcurrencyError::TooManyToRemember(limit)),
        }
    }

    /// Sets the time for which a permit counts after it was taken or renewed. A process that dies gives its permits back
    /// after at most this time, and one that is paused for longer loses them.
    ///
    /// # Errors
    ///
    /// If it is below 1 s or above 24 h, or has a fraction of a microsecond.
    pub const fn with_hold(self, hold: Duration) -> Result<Self, LimitError> {
        valid(self.checked_hold(hold))
    }

    pub(crate) const fn checked_hold(self, hold: Duration) -> Result<Self, ConcurrencyError> {
        if hold.as_nanos() < Self::MIN_HOLD.as_nanos()
            || hold.as_nanos() > Self::MAX_HOLD.as_nanos()
        {
            return Err(ConcurrencyError::HoldOutOfRange);
        }
        match Window::checked(self.permits.limit(), hold) {
            Ok(permits) => Ok(Self { permits, ..self }),
            Err(_) => Err(ConcurrencyError::HoldTooFine),
        }
    }

    /// Sets how long a request waits for a permit at most, in order of arrival. Only a
    /// [`MemoryBackend`](crate::MemoryBackend) has such a line. Zero, the default, means that no request waits.
    ///
    /// # Errors
    ///
    /// If it has a fraction of a microsecond, or is longer than 2⁵¹ µs (71 years).
    pub const fn with_max_wait(self, max_wait: Duration) -> Result<Self, LimitError> {
        valid(self.checked_wait(max_wait))
    }

    pub(crate) const fn checked_wait(self, max_wait: Duration) -> Result<Self, ConcurrencyError> {
        if !max_wait.subsec_nanos().is_multiple_of(1000) {
            return Err(ConcurrencyError::WaitTooFine);
        }
        if max_wait.as_micros() > MAX_TICKS_US as u128 {
            return Err(ConcurrencyError::WaitTooLong);
        }
        let max_wait_us = max_wait.as_secs() * 1_000_000 + max_wait.subsec_micros() as u64;
        Ok(Self {
            max_wait_us,
            ..self
        })
    }

    /// Returns the most permits that count at once.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.permits.limit()
    }

    /// Returns the time for which a permit counts after it was taken or renewed.
    #[must_use]
    pub const fn hold(&self) -> Duration {
        self.permits.window()
    }

    /// Returns the longest wait for a permit.
    #[must_use]
    pub const fn max_wait(&self) -> Duration {
        Duration::from_micros(self.max_wait_us)
    }

    /// Returns the same limit with other permits.
    #[cfg(feature = "failure-policy")]
    pub(super) const fn with_permits(self, permits: Window) -> Self {
        Self { permits, ..self }
    }
}

/// Decisions without a backend, for simulators and tests. Instants are in microseconds since the Unix epoch.
impl Concurrency {
    /// Takes `cost` permits at `now` if they are left, and returns whether they were.
    #[doc(hidden)]
    #[must_use]
    pub fn take(&self, permits: &mut Units, now: u64, cost: u32) -> bool {
        self.permits.spend(permits, now, cost)
    }

    /// Gives `cost` permits back that were taken at `taken_at`, as far as they still count.
    #[doc(hidden)]
    pub fn give_back(&self, permits: &mut Units, now: u64, taken_at: u64, cost: u32) {
        let change = permits.view(&self.permits, now).refund_at(taken_at, cost);
        permits.change(&self.permits, now, change);
    }

    /// Returns the number of permits left at `now`.
    #[doc(hidden)]
    #[must_use]
    pub fn remaining(&self, permits: &Units, now: u64) -> u32 {
        self.permits.remaining(permits, now)
    }
}

const fn valid(limit: Result<Concurrency, ConcurrencyError>) -> Result<Concurrency, LimitError> {
    match limit {
        Ok(limit) => Ok(limit),
        Err(error) => Err(LimitError::new(NotationError::Concurrency(error))),
    }
}
