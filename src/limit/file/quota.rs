//! A quota: the amount, the period, and the offset from UTC.

use super::{
    super::{
        duration::parse_duration,
        limit::Limit,
        mistake::{LimitsError, Mistake},
    },
    entry::Entry,
};
use crate::quota::{CalendarUnit, Per, Quota, UtcOffset};

pub(super) fn quota(entry: &Entry<'_>) -> Result<Limit, LimitsError> {
    let quota = entry.whole("quota")?;
    let per = entry.parsed("per", per)?;
    let offset = entry.parsed("utc_offset", offset)?;
    let quota = quota.ok_or_else(|| entry.missing("quota"))?;
    let per = per.ok_or_else(|| entry.missing("per"))?;
    let per = match offset {
        None => per,
        Some(offset) if per.calendar_unit().is_some() => per.at_offset(offset),
        Some(_) => return Err(Mistake::NoOffset.at(entry.line_of("utc_offset"))),
    };
    let quota = Quota::new(quota, per);
    quota
        .map(Limit::from)
        .map_err(|error| Mistake::from(error).at(entry.line_of("quota")))
}

/// A unit of the calendar or, from first use, a duration.
fn per(text: &str) -> Result<Per, Mistake> {
    if let Some(unit) = CalendarUnit::named(text) {
        return Ok(Per::calendar(unit));
    }
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Err(Mistake::per(text));
    }
    let length = parse_duration(text).map_err(Mistake::duration("per"))?;
    Ok(Per::checked_first_use(length)?)
}

fn offset(text: &str) -> Result<UtcOffset, Mistake> {
    text.parse().map_err(|error| Mistake::offset(text, error))
}
