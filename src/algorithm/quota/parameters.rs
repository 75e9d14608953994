use std::{iter, time::Duration};

use super::{CalendarUnit, Per, UtcOffset};
use crate::algorithm::{
    Algorithm, FieldReader, Invalid, LimitError, Notation, Parameters, Share, Terms, WrittenFields,
    ceil_micros, format_duration,
    notation::{Form, duration},
};
use crate::{clock::Timestamp, id::shortened, message::nearest};

/// At most a number of units in each period.
/// [`Limit`](crate::Limit) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    pub(super) quota: u32,
    pub(super) per: Per,
}

impl Quota {
    /// Creates a limit of at most `quota` units in each period.
    pub(crate) const fn new(quota: u32, per: Per) -> Result<Self, Invalid> {
        match quota {
            0 => Err(Invalid::new(
                "quota",
                "quota is 0, so nothing would ever pass: use at least 1",
            )),
            quota => Ok(Self { quota, per }),
        }
    }

    /// The most units in a period.
    #[must_use]
    pub const fn quota(&self) -> u32 {
        self.quota
    }

    /// The period.
    #[must_use]
    pub const fn per(&self) -> Per {
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

    fn terms(&self) -> Terms {
        Terms {
            window: Some(Duration::from_micros(self.per.longest_us())),
            period: Some(Duration::from_micros(self.per.shortest_us())),
        }
    }

    /// All of it in each period that the span touches.
    fn most_within(&self, span: Duration) -> Option<u128> {
        let (us, quota) = (ceil_micros(span), u128::from(self.quota));
        let length = u128::from(self.per.longest_us());
        Some(match self.per.calendar_unit() {
            Some((CalendarUnit::Month, _)) => quota * periods_touched(us, months_in(us)),
            Some(_) => quota * periods_touched(us, us.saturating_sub(2) / length),
            None => {
                let from_start = quota * us.div_ceil(length);
                from_start.max(quota - 1 + quota * (us - 1).div_ceil(length))
            }
        })
    }

    fn values(&self) -> WrittenFields {
        let length = self.per.first_use_length().map(format_duration);
        let (line, per, offset) = match self.per.calendar_unit() {
            Some((unit, offset)) => (0, unit.to_string(), offset),
            None => (1, length.unwrap_or_default(), UtcOffset::UTC),
        };
        let offset = Some(offset).filter(|offset| *offset != UtcOffset::UTC);
        WrittenFields::of(Self::FORM.lines[line])
            .number("quota", self.quota)
            .text("per", per)
            .text("utc_offset", offset.map(|offset| offset.to_string()))
    }
}

impl Notation for Quota {
    const FORM: Form = Form {
        fields: &["quota", "per", "utc_offset"],
        words: "quota and per",
        options: &[],
        lines: &[
            "{quota} per calendar {per}[ at {utc_offset}]",
            "{quota} per {per} from first use",
        ],
        short: &[],
    };

    fn read<F: FieldReader>(fields: &F) -> Option<Self> {
        let (quota, per) = (fields.whole("quota"), fields.parsed("per", per));
        let offset = fields.parsed("utc_offset", str::parse);
        fields.require(&["quota", "per"]);
        let per = match offset {
            Some(offset) => fields.checked(per?.moved(offset))?,
            None => per?,
        };
        fields.checked(Self::new(quota?, per))
    }
}

/// Reads a unit of the calendar or, from first use, a duration.
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

/// Returns the most periods that `us` consecutive microseconds can touch, of which at most `whole` are whole: one microsecond of
/// each outer period is enough.
fn periods_touched(us: u128, whole: u128) -> u128 {
    if us < 2 { us } else { 2 + whole }
}

/// Returns the most whole months that fit into `us` microseconds, and one on each side of them.
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
