//! Sliding windows: at most a number of units in any span of a given length.
//!
//! A bucket remembers the instant of each unit. A unit taken at `t` counts while `now < t + window`, so the bound is hard: no
//! span `[t, t + window)` admits more than the limit. [`Limit::window`](crate::Limit::window) has an example.

mod arithmetic;
#[cfg(feature = "redis")]
mod scripted;

use std::{fmt, time::Duration};

pub(crate) use self::arithmetic::{Units, WindowSummary};
use super::{
    Algorithm, FieldReader, InvalidValue, LimitError, LimitSpans, Notation, Parameters, Share,
    WrittenFields, ceil_micros,
    duration::PeriodText,
    format_duration,
    notation::{AlgorithmFields, duration_or_word, whole},
    span_us,
};

/// At most `limit` units within any span of the length `window`.
/// [`Limit`](crate::Limit) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    limit: u32,
    /// In microseconds.
    window: u64,
}

impl Window {
    /// The most units that a bucket remembers, and so the highest limit.
    pub(crate) const MAX_UNITS: u32 = 4096;

    /// Creates a limit of at most `limit` units within any span of the length `window`.
    pub(crate) const fn new(limit: u32, window: Duration) -> Result<Self, InvalidValue> {
        let us = span_us(
            "window",
            window,
            "window is not a whole number of microseconds: round it to one",
            "window is more than 71 years (2^51 us): shorten it",
        );
        match (limit, us) {
            (0, _) => Err(InvalidValue::new(
                "limit",
                "limit is 0, so nothing would ever pass: use at least 1",
            )),
            (limit, _) if limit > Self::MAX_UNITS => Err(InvalidValue::new(
                "limit",
                "limit is above 4096 in a window, where each unit has to be remembered: lower it, or use a quota, or \
                 burst, count and period",
            )),
            (_, Ok(0)) => Err(InvalidValue::new(
                "window",
                "window is 0: use the time in which at most `limit` pass, as `1s` or `15m`",
            )),
            (limit, Ok(window)) => Ok(Self { limit, window }),
            (_, Err(invalid)) => Err(invalid),
        }
    }

    /// The most units within the window.
    #[cfg(feature = "testing")]
    pub(crate) const fn limit(&self) -> u32 {
        self.limit
    }

    /// The time for which a unit counts.
    #[must_use]
    pub(crate) const fn window(&self) -> Duration {
        Duration::from_micros(self.window)
    }

    /// Returns the first instant at which a unit no longer counts.
    #[inline]
    const fn end(&self, taken: u64) -> u64 {
        taken.saturating_add(self.window)
    }
}

impl Parameters for Window {
    fn capacity(&self) -> u32 {
        self.limit
    }

    fn share(&self, share: Share) -> Algorithm {
        Algorithm::Window(Self {
            limit: share.units(self.limit),
            ..*self
        })
    }

    fn spans(&self) -> LimitSpans {
        let window = self.window();
        LimitSpans {
            window: Some(window),
            period: Some(window),
        }
    }

    /// The limit counts once for each window that the span touches.
    fn most_within(&self, span: Duration) -> Option<u128> {
        let windows = ceil_micros(span).div_ceil(self.window.into());
        Some(u128::from(self.limit) * windows)
    }

    fn values(&self) -> WrittenFields {
        WrittenFields::default()
            .number("limit", self.limit)
            .text("window", format_duration(self.window()))
    }

    fn largest_history(&self) -> usize {
        self.limit as usize * size_of::<u64>()
    }
}

impl Notation for Window {
    const FIELDS: AlgorithmFields = AlgorithmFields {
        fields: &["limit", "window"],
        words: "limit and window",
        options: &[],
    };

    fn read<F: FieldReader>(fields: &F) -> Option<Self> {
        let limit = fields.whole("limit");
        let window = fields.duration("window");
        fields.require(&["limit", "window"]);
        fields.checked(Self::new(limit?, window?))
    }

    fn parse(line: &str) -> Result<Option<Algorithm>, LimitError> {
        let words: Vec<_> = line.split(' ').collect();
        let [limit, "in", "any", window] = words[..] else {
            return Ok(None);
        };
        let limit = whole("limit", limit)?;
        let window = duration_or_word("window", window)?;
        Ok(Some(Algorithm::Window(Self::new(limit, window)?)))
    }
}

/// Writes `5 in any 15m0s`.
impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in any ", self.limit)?;
        PeriodText(self.window()).fmt(f)
    }
}
