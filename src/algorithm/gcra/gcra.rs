use std::time::Duration;

use super::{gcra_error::GcraError, row::Scale};
use crate::algorithm::{
    limit_error::{LimitError, NotationError},
    ticks::{MAX_TICKS_US, Tat, Ticks, narrow},
};

/// The validated parameters of a limit: burst, count and period. [`Limit::new`](crate::Limit::new) creates a limit
/// directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gcra {
    burst: u32,
    count: u32,
    interval: Ticks,
    tolerance: Ticks,
    max_wait_us: u64,
    /// The tolerance, as rows store it.
    scale: Scale,
}

impl Gcra {
    /// Builds the parameters for a bucket of `burst` tokens. In each `period`, `count` of them come back.
    ///
    /// # Errors
    ///
    /// If one of the three is zero, if the period is not a whole number of microseconds, or if
    /// `burst · period / count` is above [`MAX_TICKS_US`].
    pub const fn new(burst: u32, count: u32, period: Duration) -> Result<Self, LimitError> {
        valid(Self::checked(burst, count, period))
    }

    pub(crate) const fn checked(
        burst: u32,
        count: u32,
        period: Duration,
    ) -> Result<Self, GcraError> {
        if count == 0 {
            return Err(GcraError::ZeroCount);
        }
        if burst == 0 {
            return Err(GcraError::ZeroBurst);
        }
        if period.is_zero() {
            return Err(GcraError::ZeroPeriod);
        }
        if !period.subsec_nanos().is_multiple_of(1000) {
            return Err(GcraError::PeriodTooFine);
        }
        let period_us = period.as_micros();
        let total = period_us * burst as u128;
        if total > MAX_TICKS_US as u128 * count as u128 {
            return Err(GcraError::ToleranceTooLong);
        }
        let tolerance = divide(total, count);
        Ok(Self {
            burst,
            count,
            interval: divide(period_us, count),
            tolerance,
            max_wait_us: 0,
            scale: Scale::new(tolerance),
        })
    }

    /// Returns the same limit with another burst, which is not 0 and at most the one that was validated.
    pub(super) fn with_burst(&self, burst: u32) -> Self {
        let tolerance = self.increment(burst);
        Self {
            burst,
            tolerance,
            scale: Scale::new(tolerance),
            ..*self
        }
    }

    /// Gives the bucket a line: a request that does not fit yet may wait for up to `max_wait`. With zero, there is no
    /// line.
    ///
    /// # Errors
    ///
    /// If the wait is not a whole number of microseconds, or is above [`MAX_TICKS_US`] together with the
    /// [tolerance](Self::tolerance).
    pub const fn with_max_wait(self, max_wait: Duration) -> Result<Self, LimitError> {
        valid(self.waiting(max_wait))
    }

    pub(crate) const fn waiting(mut self, max_wait: Duration) -> Result<Self, GcraError> {
        if !max_wait.subsec_nanos().is_multiple_of(1000) {
            return Err(GcraError::WaitTooFine);
        }
        let us = max_wait.as_micros();
        if us + self.tolerance.ceil_micros() as u128 > MAX_TICKS_US as u128 {
            return Err(GcraError::WaitTooLong);
        }
        self.max_wait_us = narrow_us(us);
        Ok(self)
    }

    /// The most tokens that the bucket holds.
    #[must_use]
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// The number of tokens that come back each period. [`Ticks::frac`] counts in parts of it.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The time in which `count` tokens come back.
    #[must_use]
    pub const fn period(&self) -> Duration {
        micros(self.period_us())
    }

    /// The emission interval `T`: the time in which one token comes back.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate::gcra::Gcra;
    ///
    /// // Seven per second: one every 142,857 1/7 µs.
    /// let interval = Gcra::new(1, 7, Duration::from_secs(1))?.interval();
    /// assert_eq!((interval.us, interval.frac), (142_857, 1));
    /// # Ok::<_, tollgate::limit::LimitError>(())
    /// ```
    #[must_use]
    pub const fn interval(&self) -> Ticks {
        self.interval
    }

    /// The tolerance `τ`: the time in which an empty bucket fills.
    #[must_use]
    pub const fn tolerance(&self) -> Ticks {
        self.tolerance
    }

    /// The longest wait in the bucket's line; zero if it has none.
    #[must_use]
    pub const fn max_wait(&self) -> Duration {
        Duration::from_micros(self.max_wait_us)
    }

    #[inline]
    pub(super) const fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns the longest wait in the bucket's line, in microseconds.
    #[inline]
    pub(crate) const fn max_wait_us(&self) -> u64 {
        self.max_wait_us
    }
}

/// The longest time of a debit's tokens.
const MOST_US: u64 = 1 << 60;

/// Arithmetic on spans and instants in parts of the count.
impl Gcra {
    pub(super) const fn period_us(&self) -> u128 {
        self.units(self.interval)
    }

    pub(super) const fn units(&self, span: Ticks) -> u128 {
        span.us as u128 * self.count as u128 + span.frac as u128
    }

    /// Returns the latest TAT within the tolerance at `now`.
    #[inline]
    pub(super) fn horizon(&self, now: u64) -> Ticks {
        let Ticks { us, frac } = self.tolerance;
        Ticks {
            us: now.saturating_add(us),
            frac,
        }
    }

    /// Normalizes a stored TAT, whose fraction can come from a limit with another count.
    #[inline]
    pub(super) fn normal(&self, tat: Tat) -> Tat {
        Ticks {
            us: tat.us,
            frac: tat.frac.min(self.count - 1),
        }
    }

    /// Raises a TAT in the past to `now`, because idle time never accumulates beyond the burst.
    #[inline]
    pub(super) fn lifted(&self, tat: Tat, now: u64) -> Tat {
        self.normal(tat).max(Ticks::from_micros(now))
    }

    /// Returns `cost · T`. It stops growing far beyond [`MAX_TICKS_US`], which only a debit can reach.
    #[inline]
    pub(crate) fn increment(&self, cost: u32) -> Ticks {
        if cost == 1 {
            return self.interval;
        }
        let parts = u64::from(self.interval.frac) * u64::from(cost);
        let us = self.interval.us.saturating_mul(u64::from(cost));
        Ticks {
            us: us.min(MOST_US) + parts / u64::from(self.count),
            frac: narrow(parts % u64::from(self.count)),
        }
    }

    /// Adds a span to a span or an instant.
    #[inline]
    pub(super) fn add(&self, a: Ticks, b: Ticks) -> Ticks {
        let frac = u64::from(a.frac) + u64::from(b.frac);
        let count = u64::from(self.count);
        let carry = frac >= count;
        Ticks {
            us: a.us.saturating_add(b.us + u64::from(carry)),
            frac: narrow(if carry { frac - count } else { frac }),
        }
    }

    /// `a - b`, or zero where that would be negative.
    #[inline]
    pub(super) fn subtract(&self, a: Ticks, b: Ticks) -> Ticks {
        if a <= b {
            return Ticks::default();
        }
        let borrow = a.frac < b.frac;
        let frac = if borrow {
            a.frac + (self.count - b.frac)
        } else {
            a.frac - b.frac
        };
        Ticks {
            us: a.us - b.us - u64::from(borrow),
            frac,
        }
    }
}

const fn valid(gcra: Result<Gcra, GcraError>) -> Result<Gcra, LimitError> {
    match gcra {
        Ok(gcra) => Ok(gcra),
        Err(error) => Err(LimitError::new(NotationError::Gcra(error))),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it is at most 2^51")]
const fn narrow_us(us: u128) -> u64 {
    us as u64
}

#[expect(clippy::cast_possible_truncation, reason = "it came out of a Duration")]
const fn micros(us: u128) -> Duration {
    Duration::new((us / 1_000_000) as u64, (us % 1_000_000) as u32 * 1000)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the quotient is at most 2^51"
)]
const fn divide(units: u128, count: u32) -> Ticks {
    Ticks {
        us: (units / count as u128) as u64,
        frac: (units % count as u128) as u32,
    }
}
