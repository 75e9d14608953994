//! Concurrency limits in one line, as `4 at once`, and in files.

use std::{fmt, time::Duration};

use super::{concurrency::Concurrency, concurrency_error::ConcurrencyError};
use crate::algorithm::{
    duration::format_duration,
    limit_error::NotationError,
    line::{duration, number},
    notation::{FieldReader, Notation, WrittenFields},
};

/// What precedes the hold and the longest wait in a line.
const HELD: &str = ", held for ";
const WAITING: &str = ", waiting up to ";

impl Notation for Concurrency {
    const FIELDS: &'static [&'static str] = &["concurrent", "hold"];

    const WORDS: &'static str = "concurrent";

    const OPTIONS: &'static [(&'static str, &'static str)] =
        &[("max_wait", "no other kind of limit has a line to wait in")];

    fn parse(line: &str) -> Option<Result<Self, NotationError>> {
        let (limit, rest) = number(line).ok()?;
        let rest = rest.strip_prefix("at once")?;
        let (rest, max_wait) = match rest.split_once(WAITING) {
            Some((rest, wait)) => (rest, Some(wait)),
            None => (rest, None),
        };
        let hold = match rest {
            "" => None,
            rest => Some(rest.strip_prefix(HELD)?),
        };
        Some(of_texts(limit, hold, max_wait))
    }

    fn read<F: FieldReader>(fields: &F) -> Result<Self, F::Error> {
        let limit = fields.whole("concurrent")?;
        let hold = fields.duration("hold")?;
        let max_wait = fields.duration("max_wait")?.unwrap_or_default();
        let limit = limit.ok_or_else(|| fields.missing("concurrent"))?;
        of_values(limit, hold.unwrap_or(Self::DEFAULT_HOLD), max_wait)
            .map_err(|error| fields.mistaken(error.into()))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at once", self.limit())?;
        if let Some(hold) = written_hold(self) {
            write!(f, "{HELD}{hold}")?;
        }
        match written_wait(self) {
            Some(wait) => write!(f, "{WAITING}{wait}"),
            None => Ok(()),
        }
    }

    fn values(&self) -> WrittenFields {
        WrittenFields::default()
            .number("concurrent", self.limit())
            .text("hold", written_hold(self))
            .text("max_wait", written_wait(self))
    }
}

/// Returns the hold, unless it is the default.
fn written_hold(limit: &Concurrency) -> Option<String> {
    let hold = Some(limit.hold()).filter(|hold| *hold != Concurrency::DEFAULT_HOLD);
    hold.map(format_duration)
}

/// Returns the longest wait, if requests wait.
fn written_wait(limit: &Concurrency) -> Option<String> {
    let wait = Some(limit.max_wait()).filter(|wait| !wait.is_zero());
    wait.map(format_duration)
}

fn of_values(
    limit: u32,
    hold: Duration,
    max_wait: Duration,
) -> Result<Concurrency, ConcurrencyError> {
    Concurrency::checked(limit)?
        .checked_hold(hold)?
        .checked_wait(max_wait)
}

fn of_texts(
    limit: u32,
    hold: Option<&str>,
    max_wait: Option<&str>,
) -> Result<Concurrency, NotationError> {
    let hold = hold.map_or(Ok(Concurrency::DEFAULT_HOLD), |hold| duration("hold", hold))?;
    let max_wait = max_wait.map_or(Ok(Duration::ZERO), |wait| duration("wait", wait))?;
    Ok(of_values(limit, hold, max_wait)?)
}
