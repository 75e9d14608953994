//! Concurrency limits: at most a number of permits at once.
//!
//! A bucket is a set of permits, each with a name. The process that asks for a permit chooses its name, a random number. So it can
//! renew the permit or give it back even if the answer to its request was lost. It can also repeat each of these, because none of
//! them changes a permit with another name. A permit counts while `now < seen + hold`, where `seen` is when it was taken or renewed
//! last. So the permits of a process that dies come back after the hold. Waits are unknown, because work ends at any time.
//! [`Limit::concurrent`](crate::Limit::concurrent) has an example.

mod arithmetic;
#[cfg(feature = "redis")]
mod scripted;

use std::{fmt, time::Duration};

pub(crate) use self::arithmetic::{Permits, new_name};
use super::{
    Algorithm, FieldReader, InvalidValue, LimitError, LimitSpans, Notation, Parameters, Share,
    WrittenFields,
    duration::DurationText,
    format_duration,
    notation::{AlgorithmFields, duration_or_word, split_option, whole},
};

/// At most `limit` permits at once.
/// [`Limit`](crate::Limit) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Concurrency {
    limit: u32,
    hold: Duration,
}

impl Concurrency {
    /// The most permits that a bucket remembers, and so the highest limit.
    pub(crate) const MAX_PERMITS: u32 = 4096;

    /// The time for which a permit counts after it was taken or renewed, unless the limit says otherwise.
    pub(crate) const DEFAULT_HOLD: Duration = Duration::from_secs(30);

    /// Creates a limit of at most `limit` at once, each for [`DEFAULT_HOLD`](Self::DEFAULT_HOLD) after it was taken or renewed.
    pub(crate) const fn new(limit: u32) -> Result<Self, InvalidValue> {
        if limit == 0 {
            return Err(InvalidValue::new(
                "concurrent",
                "concurrent is 0, so nothing would ever pass: use at least 1",
            ));
        }
        if limit > Self::MAX_PERMITS {
            return Err(InvalidValue::new(
                "concurrent",
                "concurrent is above 4096, and each permit has to be remembered: lower it",
            ));
        }
        Ok(Self {
            limit,
            hold: Self::DEFAULT_HOLD,
        })
    }

    /// Sets the time for which a permit counts after it was taken or renewed.
    pub(crate) const fn with_hold(self, hold: Duration) -> Result<Self, InvalidValue> {
        const DAY: u128 = 24 * 60 * 60 * 1_000_000_000;
        if hold.as_secs() == 0 || hold.as_nanos() > DAY {
            return Err(InvalidValue::new(
                "hold",
                "permits are held for 1 s to 24 h: change the hold",
            ));
        }
        if !hold.subsec_nanos().is_multiple_of(1000) {
            return Err(InvalidValue::new(
                "hold",
                "hold is not a whole number of microseconds: round it to one",
            ));
        }
        Ok(Self { hold, ..self })
    }

    /// The most permits that count at once.
    #[must_use]
    pub(crate) const fn limit(&self) -> u32 {
        self.limit
    }

    /// The time for which a permit counts after it was taken or renewed.
    #[must_use]
    pub(crate) const fn hold(&self) -> Duration {
        self.hold
    }
}

impl Parameters for Concurrency {
    fn capacity(&self) -> u32 {
        self.limit()
    }

    fn share(&self, share: Share) -> Algorithm {
        Algorithm::Concurrency(Self {
            limit: share.units(self.limit),
            ..*self
        })
    }

    fn spans(&self) -> LimitSpans {
        LimitSpans {
            window: None,
            period: None,
        }
    }

    /// There is no bound, because work that ends makes room for the next.
    fn most_within(&self, _: Duration) -> Option<u128> {
        None
    }

    fn values(&self) -> WrittenFields {
        let hold = Some(self.hold()).filter(|hold| *hold != Self::DEFAULT_HOLD);
        WrittenFields::default()
            .number("concurrent", self.limit())
            .text("hold", hold.map(format_duration))
    }

    fn largest_history(&self) -> usize {
        self.limit as usize * Permits::BYTES
    }
}

impl Notation for Concurrency {
    const FIELDS: AlgorithmFields = AlgorithmFields {
        fields: &["concurrent", "hold"],
        words: "concurrent",
        options: &[],
    };

    fn read<F: FieldReader>(fields: &F) -> Option<Self> {
        let limit = fields.whole("concurrent");
        let hold = fields.duration("hold");
        fields.require(&["concurrent"]);
        let hold = hold.unwrap_or(Self::DEFAULT_HOLD);
        fields.checked(Self::new(limit?).and_then(|limit| limit.with_hold(hold)))
    }

    fn parse(line: &str) -> Result<Option<Algorithm>, LimitError> {
        let (start, hold) = split_option(line, ", held for ");
        let words: Vec<_> = start.split(' ').collect();
        let [limit, "at", "once"] = words[..] else {
            return Ok(None);
        };
        let limit = whole("concurrent", limit)?;
        let hold = match hold {
            Some(hold) => duration_or_word("hold", hold)?,
            None => Self::DEFAULT_HOLD,
        };
        let limit = Self::new(limit)?.with_hold(hold)?;
        Ok(Some(Algorithm::Concurrency(limit)))
    }
}

/// Writes `4 at once` or `4 at once, held for 1m0s`.
impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit;
        match self.hold {
            Self::DEFAULT_HOLD => write!(f, "{limit} at once"),
            hold => {
                write!(f, "{limit} at once, held for ")?;
                DurationText(hold).fmt(f)
            }
        }
    }
}
