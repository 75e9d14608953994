//! Quotas in one line, as `1000 per calendar day`, and in files.

use std::fmt;

use super::{
    per::{CalendarUnit, Per},
    quota::Quota,
    quota_error::QuotaError,
    utc_offset::UtcOffset,
};
use crate::{
    algorithm::{
        duration::format_duration,
        limit_error::NotationError,
        line::{after_per, after_word, duration, number},
        notation::{FieldReader, Notation, WrittenFields},
    },
    id::shortened,
};

impl Notation for Quota {
    const FIELDS: &'static [&'static str] = &["quota", "per", "utc_offset"];

    const WORDS: &'static str = "quota and per";

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
                return Err(fields.mistaken(QuotaError::NoOffset.into()));
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

    fn values(&self) -> WrittenFields {
        let (per, offset) = match self.per().calendar_unit() {
            Some((unit, offset)) => (unit.to_string(), offset),
            None => (length(self.per()), UtcOffset::UTC),
        };
        let offset = Some(offset).filter(|offset| *offset != UtcOffset::UTC);
        WrittenFields::default()
            .number("quota", self.quota())
            .text("per", per)
            .text("utc_offset", offset.map(|offset| offset.to_string()))
    }
}

fn of_values(quota: u32, per: Per) -> Result<Quota, QuotaError> {
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
    let per = Per::calendar(CalendarUnit::named(unit).ok_or(QuotaError::Unit)?);
    Ok(match offset {
        Some(offset) => per.at_offset(UtcOffset::parse(offset).map_err(QuotaError::from)?),
        None => per,
    })
}

/// Reads the length of a period from first use.
fn first_use(text: &str) -> Result<Per, NotationError> {
    let length = duration("period", text.trim_end())?;
    Ok(Per::checked(length).map_err(QuotaError::from)?)
}

/// Reads a unit of the calendar or, from first use, a duration.
fn per(text: &str) -> Result<Per, NotationError> {
    if let Some(unit) = CalendarUnit::named(text) {
        return Ok(Per::calendar(unit));
    }
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Err(QuotaError::per(text).into());
    }
    let length = duration("per", text)?;
    Ok(Per::checked(length).map_err(QuotaError::from)?)
}

fn offset(text: &str) -> Result<UtcOffset, NotationError> {
    let offset = UtcOffset::parse(text).map_err(|source| QuotaError::OffsetField {
        text: shortened(text),
        source,
    });
    Ok(offset?)
}
