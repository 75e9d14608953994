//! Quotas: at most a number of units per calendar hour, day, week or month, or per span from first use.
//!
//! A bucket is the end of its period, and the amount used. All of it comes back at once, when the period ends. The amount
//! counts while `now` is before the end, so a clock that steps back gives no second quota, and a changed period applies from
//! the next one. [`Limit::quota`](crate::Limit::quota) has an example.
//!
//! **The bound.** Each period admits at most the quota. A span of time that touches two periods can see both: `1000 per
//! day` admits up to 2000 within any 24 hours. [`Limit::most_within`](crate::Limit::most_within) computes this.

mod arithmetic;
mod per;
#[cfg(feature = "redis")]
mod scripted;
mod utc_offset;

pub use self::{
    arithmetic::Usage,
    per::{CalendarUnit, Per},
    utc_offset::UtcOffset,
};
use super::{
    FieldReader, Invalid, LimitError, Notation, Share, WrittenFields, format_duration,
    notation::{Form, duration},
};
use crate::{id::shortened, message::nearest};

/// At most a number of units in each period.
/// [`Limit`](crate::Limit) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    quota: u32,
    per: Per,
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

    /// Returns the share of a process.
    pub(super) fn share(&self, share: Share) -> Self {
        Self {
            quota: share.units(self.quota),
            ..*self
        }
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
