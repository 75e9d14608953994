//! Quotas in one line, as `1000 per calendar day`, and in files.

use std::fmt;

use serde::Serialize;
use thiserror::Error;

use super::{
    Quota, QuotaError,
    per::{CalendarUnit, Per, PerError},
    utc_offset::{InvalidUtcOffset, UtcOffset},
};
use crate::{
    algorithm::{
        LimitError, LimitErrorKind,
        duration::format_duration,
        line::{after_per, after_word, duration, number},
        notation::{FieldReader, Notation, NotationError},
    },
    id::shortened,
    spelling::nearest,
};

/// The values in a file.
#[derive(Serialize)]
pub(crate) struct QuotaValues {
    quota: u32,
    per: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    utc_offset: Option<String>,
}

impl Notation for Quota {
    const FIELDS: &'static [&'static str] = &["quota", "per", "utc_offset"];

    const WORDS: &'static str = "quota and per";

    type Values = QuotaValues;

    fn parse(line: &str) -> Option<Result<Self, NotationError>> {
        let (quota, rest) = number(line).ok()?;
        let text = after_per(rest)?;
        let per = match after_word(text, "calendar") {
            Some(unit) => calendar(unit),
            None => first_use(text.strip_suffix(" from first use")?),
        };
        Some(per.and_then(|per| Ok(of_values(quota, per)?)))
    }

    fn read<F: FieldReader>(fields: &F) -> Result<Self, F::Error> {
        let quota = fields.whole("quota")?;
        let per = fields.parsed("per", per)?;
        let offset = fields.parsed("utc_offset", offset)?;
        let quota = quota.ok_or_else(|| fields.missing("quota"))?;
        let per = per.ok_or_else(|| fields.missing("per"))?;
        let per = match offset {
            None => per,
            Some(offset) if per.calendar_unit().is_some() => per.at_offset(offset),
            Some(_) => {
                return Err(fields.mistaken(QuotaMistake::NoOffset.into()));
            }
        };
        of_values(quota, per).map_err(|error| fields.mistaken(error.into()))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quota = self.quota();
        match self.per().calendar_unit() {
            Some((unit, UtcOffset::UTC)) => write!(f, "{quota} per calendar {unit}"),
            Some((unit, offset)) => write!(f, "{quota} per calendar {unit} at {offset}"),
            None => write!(f, "{quota} per {} from first use", length(self.per())),
        }
    }

    fn values(&self) -> QuotaValues {
        let (per, offset) = match self.per().calendar_unit() {
            Some((unit, offset)) => (unit.to_string(), offset),
            None => (length(self.per()), UtcOffset::UTC),
        };
        QuotaValues {
            quota: self.quota(),
            per,
            utc_offset: (offset != UtcOffset::UTC).then(|| offset.to_string()),
        }
    }
}

fn of_values(quota: u32, per: Per) -> Result<Quota, QuotaMistake> {
    Ok(Quota::checked(quota, per)?)
}

/// Writes the length of a period from first use.
fn length(per: Per) -> String {
    format_duration(per.first_use_length().unwrap_or_default())
}

/// Reads `day` or `day at +02:00`.
fn calendar(text: &str) -> Result<Per, NotationError> {
    let (unit, offset) = match text.split_once(" at ") {
        Some((unit, offset)) => (unit.trim_end(), Some(offset.trim())),
        None => (text, None),
    };
    let per = Per::calendar(CalendarUnit::named(unit).ok_or(QuotaMistake::Unit)?);
    Ok(match offset {
        Some(offset) => per.at_offset(UtcOffset::parse(offset).map_err(QuotaMistake::from)?),
        None => per,
    })
}

/// Reads the length of a period from first use.
fn first_use(text: &str) -> Result<Per, NotationError> {
    let length = duration("period", text.trim_end())?;
    Ok(Per::checked(length).map_err(QuotaMistake::from)?)
}

/// Reads a unit of the calendar or, from first use, a duration.
fn per(text: &str) -> Result<Per, NotationError> {
    if let Some(unit) = CalendarUnit::named(text) {
        return Ok(Per::calendar(unit));
    }
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Err(QuotaMistake::per(text).into());
    }
    let length = duration("per", text)?;
    Ok(Per::checked(length).map_err(QuotaMistake::from)?)
}

fn offset(text: &str) -> Result<UtcOffset, NotationError> {
    let offset = UtcOffset::parse(text).map_err(|source| QuotaMistake::OffsetField {
        text: shortened(text),
        source,
    });
    Ok(offset?)
}

/// A mistake in a quota as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum QuotaMistake {
    #[error(transparent)]
    Amount(#[from] QuotaError),
    #[error(transparent)]
    Length(#[from] PerError),
    #[error(transparent)]
    Offset(#[from] InvalidUtcOffset),
    #[error("a calendar has `hour`, `day`, `week` and `month`: write `1000 per calendar day`")]
    Unit,
    #[error("per is `{text}`: {hint}")]
    Per { text: String, hint: String },
    #[error("utc_offset is `{text}`: {source}")]
    OffsetField {
        text: String,
        source: InvalidUtcOffset,
    },
    #[error(
        "utc_offset is for quotas per hour, day, week or month; a period of this length starts with the first request: \
         remove it"
    )]
    NoOffset,
}

impl QuotaMistake {
    pub(super) const fn refused(self) -> LimitError {
        LimitError::new(NotationError::Quota(self))
    }

    /// Returns the field to change first, and what is wrong with it.
    pub(crate) const fn field_and_kind(&self) -> (&'static str, LimitErrorKind) {
        match self {
            Self::Amount(QuotaError::Zero) => ("quota", LimitErrorKind::Zero),
            Self::Length(PerError::Zero) => ("per", LimitErrorKind::Zero),
            Self::Length(PerError::TooFine) => ("per", LimitErrorKind::TooFine),
            Self::Length(PerError::TooLong) => ("per", LimitErrorKind::TooLong),
            Self::Unit | Self::Per { .. } => ("per", LimitErrorKind::Unreadable),
            Self::Offset(_) | Self::OffsetField { .. } | Self::NoOffset => {
                ("utc_offset", LimitErrorKind::Unreadable)
            }
        }
    }

    fn per(text: &str) -> Self {
        const UNITS: [&str; 4] = ["hour", "day", "week", "month"];
        let hint = nearest(text, &UNITS).map_or_else(
            || "write `hour`, `day`, `week` or `month`, or a duration such as `24h`, which starts with the first request".into(),
            |near| format!("did you mean `{near}`?"),
        );
        let text = shortened(text);
        Self::Per { text, hint }
    }
}
