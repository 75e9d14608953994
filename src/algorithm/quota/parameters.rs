use std::{fmt, iter, time::Duration};

use super::{CalendarUnit, Per, local_clock::LocalClock};
use crate::algorithm::{
    Algorithm, FieldReader, InvalidValue, LimitError, LimitSpans, Notation, Parameters, Share,
    WrittenFields, ceil_micros,
    duration::duration,
    format_duration,
    notation::{AlgorithmFields, whole},
};
use crate::{clock::Timestamp, id::shortened, message::nearest};

/// At most a number of units in each period.
/// [`Limit`](crate::Limit) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Quota {
    pub(super) quota: u32,
    pub(super) per: Per,
}

impl Quota {
    /// Creates a limit of at most `quota` units in each period.
    pub(crate) const fn new(quota: u32, per: Per) -> Result<Self, InvalidValue> {
        match quota {
            0 => Err(InvalidValue::new(
                "quota",
                "quota is 0, so nothing would ever pass: use at least 1",
            )),
            quota => Ok(Self { quota, per }),
        }
    }

    /// The most units in a period.
    #[cfg(feature = "testing")]
    pub(crate) const fn quota(&self) -> u32 {
        self.quota
    }

    /// The period.
    #[cfg(feature = "testing")]
    pub(crate) const fn per(&self) -> Per {
        self.per
    }
}

impl Parameters for Quota {
    fn capacity(&self) -> u32 {
        self.quota
    }

    fn share(&self, share: Share) -> Algorithm {
        let quota = share.units(self.quota);
        Algorithm::Quota(Self { quota, ..*self })
    }

    fn spans(&self) -> LimitSpans {
        LimitSpans {
            window: Some(Duration::from_micros(self.per.longest_us())),
            period: Some(Duration::from_micros(self.per.shortest_us())),
        }
    }

    /// Each period that the span touches admits the whole quota.
    fn most_within(&self, span: Duration) -> Option<u128> {
        let us = ceil_micros(span);
        let quota = u128::from(self.quota);
        let length = u128::from(self.per.longest_us());
        let drift = u128::from(self.per.drift_us());
        Some(match self.per.calendar_unit() {
            Some(CalendarUnit::Month) => quota * periods_touched(us, months_in(us + drift)),
            Some(_) => quota * periods_touched(us, (us + drift).saturating_sub(2) / length),
            None => {
                let from_start = quota * us.div_ceil(length);
                from_start.max(quota - 1 + quota * (us - 1).div_ceil(length))
            }
        })
    }

    fn values(&self) -> WrittenFields {
        let fields = WrittenFields::default().number("quota", self.quota);
        let length = self.per.first_use_length().map(format_duration);
        let unit = self.per.calendar_unit().map(|unit| unit.to_string());
        let fields = fields.text("per", unit.or(length));
        match self.per.clock() {
            None | Some(LocalClock::UTC) => fields,
            Some(LocalClock::Offset(offset)) => fields.text("utc_offset", offset.to_string()),
            #[cfg(feature = "zones")]
            Some(LocalClock::Zone(zone)) => fields.text("time_zone", zone.name().to_owned()),
        }
    }
}

impl Notation for Quota {
    const FIELDS: AlgorithmFields = AlgorithmFields {
        fields: &["quota", "per", "utc_offset", "time_zone"],
        words: "quota and per",
        options: &[],
    };

    fn read<F: FieldReader>(fields: &F) -> Option<Self> {
        let quota = fields.whole("quota");
        let per = fields.parsed("per", per);
        let offset = fields.parsed("utc_offset", |text| text.parse().map(LocalClock::Offset));
        let zone = fields.parsed("time_zone", LocalClock::in_zone);
        fields.require(&["quota", "per"]);
        if offset.is_some() && zone.is_some() {
            let message = "time_zone stands beside utc_offset: remove one of them";
            fields.mistaken(LimitError::value("time_zone", message));
            return None;
        }
        let per = match offset.or(zone) {
            Some(clock) => fields.checked(per?.by_clock(clock))?,
            None => per?,
        };
        fields.checked(Self::new(quota?, per))
    }

    fn parse(line: &str) -> Result<Option<Algorithm>, LimitError> {
        let words: Vec<_> = line.split(' ').collect();
        if let [quota, "per", length, "from", "first", "use"] = words[..] {
            let quota = Self::new(whole("quota", quota)?, per(length)?)?;
            // A period from first use is written as a length, not as a unit: `10 per day from first use` is not accepted.
            let is_length = quota.per.first_use_length().is_some();
            return Ok(is_length.then_some(Algorithm::Quota(quota)));
        }
        let [quota, "per", "calendar", unit, ref clock @ ..] = words[..] else {
            return Ok(None);
        };
        let clock = match *clock {
            [] => None,
            ["at", offset] => Some(offset.parse().map(LocalClock::Offset)),
            ["in", zone] => Some(LocalClock::in_zone(zone)),
            _ => return Ok(None),
        };
        let quota = whole("quota", quota)?;
        let per = match clock {
            Some(clock) => per(unit)?.by_clock(clock?)?,
            None => per(unit)?,
        };
        let quota = Self::new(quota, per)?;
        // A calendar period is written as a unit, not as a length: `10 per calendar 24h` is not accepted.
        let is_unit = per.calendar_unit().is_some();
        Ok(is_unit.then_some(Algorithm::Quota(quota)))
    }
}

/// Writes `1000 per calendar day`, `1000 per calendar day at +02:00`, `1000 per calendar day in America/Los_Angeles` or
/// `1000 per 24h0m0s from first use`.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per ", self.quota)?;
        self.per.fmt(f)
    }
}

/// Reads a unit of the calendar, or a duration for a period from first use.
fn per(text: &str) -> Result<Per, LimitError> {
    if let Some(unit) = CalendarUnit::named(text) {
        return Ok(Per::calendar(unit));
    }
    if text.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Ok(Per::checked(duration("per", text)?)?);
    }
    let hint = match nearest(text, &CalendarUnit::ALL.map(CalendarUnit::word)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "write `hour`, `day`, `week` or `month`, or a duration such as `24h`, which starts with the first request"
            .to_owned(),
    };
    let message = format!("per is `{}`: {hint}", shortened(text));
    Err(LimitError::value("per", message))
}

/// Returns the most periods that `us` consecutive microseconds can touch, if they contain at most `whole` whole periods. A period
/// at either end is touched by a single microsecond.
fn periods_touched(us: u128, whole: u128) -> u128 {
    if us < 2 { us } else { 2 + whole }
}

/// Returns the most whole months that fit into `us` microseconds if each end also touches another month.
fn months_in(us: u128) -> u128 {
    let first = Some(Per::Month.end(0));
    let ends = iter::successors(first, |end| Some(Per::Month.end(*end)));
    let ends: Vec<_> = ends
        .take_while(|end| *end < Timestamp::END.as_micros())
        .collect();
    let fits = |whole: &usize| {
        let mut spans = ends.iter().zip(&ends[*whole..]);
        spans.any(|(start, end)| u128::from(end - start) + 2 <= us)
    };
    (1..ends.len()).take_while(fits).count() as u128
}
