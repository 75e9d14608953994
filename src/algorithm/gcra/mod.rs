//! GCRA, the generic cell rate algorithm: a token bucket in exact arithmetic.
//!
//! The state is the theoretical arrival time (TAT): the instant at which the bucket is full again. A request of cost c is allowed
//! if `max(TAT, now) + c·T <= now + τ`, where `T = period / count` is the emission interval and `τ = burst · T` is the tolerance.
//! Both are exact rationals, so a limit of seven per second does not drift, even over years. Between two instants W apart, both
//! included, a bucket admits at most `burst + floor(W / T)`.
//!
//! Source: ITU-T I.371, annex A.

mod arithmetic;
#[cfg(feature = "redis")]
mod scripted;

use std::{fmt, time::Duration};

pub(crate) use self::arithmetic::Ticks;
use super::{
    Algorithm, FieldReader, InvalidValue, LONGEST_US, LimitError, LimitSpans, Notation, Parameters,
    Share, WrittenFields,
    duration::{DurationText, PeriodText},
    format_duration,
    notation::{AlgorithmFields, duration_or_word, split_option, whole},
    span_us, thousandths_of_unit,
};

/// A bucket of `burst` tokens, which gets `count` tokens back in each period. [`Limit::new`](crate::Limit::new) creates one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gcra {
    burst: u32,
    count: u32,
    /// The emission interval `T`: the time in which one token comes back.
    interval: Ticks,
    /// The tolerance `τ`: the time in which an empty bucket fills.
    tolerance: Ticks,
    /// The longest wait in line, in microseconds.
    max_wait: u64,
    /// The share of the burst that one token is, in thousandths. It is computed once, because the division would take a tenth of
    /// each decision.
    thousandths_of_token: u64,
}

impl Gcra {
    /// Creates a limit of `burst` tokens that gets `count` tokens back in each `period`.
    pub(crate) const fn new(
        burst: u32,
        count: u32,
        period: Duration,
    ) -> Result<Self, InvalidValue> {
        let (field, message) = match (burst, count) {
            (_, 0) => (
                "count",
                "count is 0, so no token would ever come back: use at least 1",
            ),
            (0, _) => (
                "burst",
                "burst is 0, so nothing would ever pass: use at least 1",
            ),
            _ if period.is_zero() => (
                "period",
                "period is 0: use the time in which `count` tokens come back, such as `1s` or `3h`",
            ),
            _ if !period.subsec_nanos().is_multiple_of(1000) => (
                "period",
                "period is not a whole number of microseconds: round it to one",
            ),
            _ => return Self::filling(burst, count, period.as_micros()),
        };
        Err(InvalidValue::new(field, message))
    }

    /// Creates a limit whose period is in microseconds.
    const fn filling(burst: u32, count: u32, period: u128) -> Result<Self, InvalidValue> {
        let tolerance = Ticks::divide(period.saturating_mul(burst as u128), count);
        if tolerance.us < LONGEST_US || tolerance.us == LONGEST_US && tolerance.frac == 0 {
            Ok(Self {
                burst,
                count,
                interval: Ticks::divide(period, count),
                tolerance,
                max_wait: 0,
                thousandths_of_token: thousandths_of_unit(burst),
            })
        } else {
            Err(InvalidValue::new(
                "period",
                "an empty bucket would take more than 71 years (2^51 µs) to fill: lower the burst or the period, or \
                 raise the count",
            ))
        }
    }

    /// Sets the longest wait in line. With zero, no request waits.
    pub(crate) const fn with_max_wait(self, max_wait: Duration) -> Result<Self, InvalidValue> {
        const TOO_LONG: &str = "max_wait and the time in which an empty bucket fills are more than 71 years (2^51 us) \
                                together: lower max_wait";
        const TOO_FINE: &str = "max_wait is not a whole number of microseconds: round it to one";
        match span_us("max_wait", max_wait, TOO_FINE, TOO_LONG) {
            Ok(us) if self.tolerance.ceil() + us > LONGEST_US => {
                Err(InvalidValue::new("max_wait", TOO_LONG))
            }
            Ok(us) => Ok(Self {
                max_wait: us,
                ..self
            }),
            Err(invalid) => Err(invalid),
        }
    }

    /// Returns the same rate with another burst.
    pub(crate) const fn with_burst(self, burst: u32) -> Result<Self, InvalidValue> {
        match Self::new(burst, self.count, self.period()) {
            Ok(gcra) => gcra.with_max_wait(self.max_wait()),
            Err(invalid) => Err(invalid),
        }
    }

    /// The number of tokens in a full bucket.
    #[must_use]
    pub(crate) const fn burst(&self) -> u32 {
        self.burst
    }

    /// The number of tokens that come back in each period.
    #[cfg(feature = "testing")]
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// The period in which `count` tokens come back.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "it came out of a duration")]
    pub(crate) const fn period(&self) -> Duration {
        let us = self.period_us();
        Duration::new((us / 1_000_000) as u64, (us % 1_000_000) as u32 * 1000)
    }

    /// The longest wait in line; zero if no request waits.
    #[must_use]
    pub(crate) const fn max_wait(&self) -> Duration {
        Duration::from_micros(self.max_wait)
    }

    const fn period_us(&self) -> u128 {
        self.interval.parts(self.count)
    }
}

impl Parameters for Gcra {
    fn capacity(&self) -> u32 {
        self.burst
    }

    /// The share of the burst is rounded up.
    fn share(&self, share: Share) -> Algorithm {
        let burst = share.units(self.burst);
        let period = self.period_us() * u128::from(share.processes());
        let shared = Self::filling(burst, self.count, period);
        // The share of the rate can be slower than any limit allows. Then the process has its share of the burst, and the whole
        // rate.
        let shared = shared.or_else(|_| self.with_burst(burst)).unwrap_or(*self);
        Algorithm::Gcra(Self {
            max_wait: self.max_wait.min(LONGEST_US - shared.tolerance.ceil()),
            ..shared
        })
    }

    fn spans(&self) -> LimitSpans {
        LimitSpans {
            window: Some(Duration::from_micros(self.tolerance.ceil())),
            period: Some(self.period()),
        }
    }

    /// The bound is `burst + ⌈span / T⌉ − 1`.
    fn most_within(&self, span: Duration) -> Option<u128> {
        let intervals = span.as_nanos() * u128::from(self.count);
        Some(u128::from(self.burst) + intervals.div_ceil(self.period().as_nanos()) - 1)
    }

    fn values(&self) -> WrittenFields {
        let max_wait = (self.max_wait > 0).then(|| format_duration(self.max_wait()));
        WrittenFields::default()
            .number("burst", self.burst)
            .number("count", self.count)
            .text("period", format_duration(self.period()))
            .text("max_wait", max_wait)
    }
}

impl Notation for Gcra {
    const FIELDS: AlgorithmFields = AlgorithmFields {
        fields: &["burst", "count", "period"],
        words: "burst, count and period",
        options: &[("max_wait", "no other kind of limit has a line to wait in")],
    };

    fn read<F: FieldReader>(fields: &F) -> Option<Self> {
        let burst = fields.whole("burst");
        let count = fields.whole("count");
        let period = fields.duration("period");
        let max_wait = fields.duration("max_wait");
        fields.require(&["burst", "count", "period"]);
        // The count stands in for a mistaken burst, so that mistakes in the other fields are recorded, too.
        let gcra = Self::new(burst.or(count)?, count?, period?);
        let max_wait = max_wait.unwrap_or_default();
        fields.checked(gcra.and_then(|gcra| gcra.with_max_wait(max_wait)))
    }

    fn parse(line: &str) -> Result<Option<Algorithm>, LimitError> {
        let (rate, max_wait) = split_option(line, ", waiting up to ");
        let words: Vec<_> = rate.split(' ').collect();
        let (count, period, burst) = match words[..] {
            [count, "per", period, burst, "at", "once"] => match period.strip_suffix(',') {
                Some(period) if !period.is_empty() => (count, period, Some(burst)),
                _ => return Ok(None),
            },
            // The short forms cannot set `max_wait`.
            _ if max_wait.is_some() => return Ok(None),
            [count, "per", period, "burst", burst] => (count, period, Some(burst)),
            [count, "per", period] => (count, period, None),
            _ => return Ok(None),
        };
        let burst = burst.map(|burst| whole("burst", burst)).transpose()?;
        let count = whole("count", count)?;
        let period = duration_or_word("period", period)?;
        let max_wait = match max_wait {
            Some(max_wait) => duration_or_word("max_wait", max_wait)?,
            None => Duration::ZERO,
        };
        let gcra = Self::new(burst.unwrap_or(count), count, period)?;
        Ok(Some(Algorithm::Gcra(gcra.with_max_wait(max_wait)?)))
    }
}

/// Writes `10 per 1s, 20 at once` or `10 per 1s, 20 at once, waiting up to 2s`.
impl fmt::Display for Gcra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per ", self.count)?;
        PeriodText(self.period()).fmt(f)?;
        write!(f, ", {} at once", self.burst)?;
        if self.max_wait > 0 {
            f.write_str(", waiting up to ")?;
            DurationText(self.max_wait()).fmt(f)?;
        }
        Ok(())
    }
}
