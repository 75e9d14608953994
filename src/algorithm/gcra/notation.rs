//! Token buckets in one line, as `10/s burst 20`, and in files.

use std::{fmt, time::Duration};

use super::gcra::Gcra;
use crate::algorithm::{
    duration::format_duration,
    limit_error::NotationError,
    line::{after_per, after_word, duration, number, period},
    notation::{FieldReader, Notation, WrittenFields},
};

impl Notation for Gcra {
    const FIELDS: &'static [&'static str] = &["burst", "count", "period"];

    const WORDS: &'static str = "burst, count and period";

    const OPTIONS: &'static [(&'static str, &'static str)] =
        &[("max_wait", "no other kind of limit has a line to wait in")];

    fn parse(line: &str) -> Option<Result<Self, NotationError>> {
        Some(token_bucket(line))
    }

    fn read<F: FieldReader>(fields: &F) -> Result<Self, F::Error> {
        let burst = fields.whole("burst")?;
        let count = fields.whole("count")?;
        let period = fields.duration("period")?;
        let burst = burst.ok_or_else(|| fields.missing("burst"))?;
        let count = count.ok_or_else(|| fields.missing("count"))?;
        let period = period.ok_or_else(|| fields.missing("period"))?;
        let max_wait = fields.duration("max_wait")?.unwrap_or_default();
        Self::checked(burst, count, period)
            .and_then(|gcra| gcra.waiting(max_wait))
            .map_err(|error| fields.mistaken(error.into()))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, period) = (self.count(), format_duration(self.period()));
        write!(f, "{count} per {period}, {} at once", self.burst())?;
        match line_of(self) {
            None => Ok(()),
            Some(wait) => write!(f, ", waiting up to {wait}"),
        }
    }

    fn values(&self) -> WrittenFields {
        WrittenFields::default()
            .number("burst", self.burst())
            .number("count", self.count())
            .text("period", format_duration(self.period()))
            .text("max_wait", line_of(self))
    }
}

/// Returns the longest wait in the bucket's line, if it has one.
fn line_of(gcra: &Gcra) -> Option<String> {
    let wait = Some(gcra.max_wait()).filter(|wait| !wait.is_zero());
    wait.map(format_duration)
}

/// Reads `10/s`, `10/s burst 20` or `10 per 1s, 20 at once, waiting up to 2s`.
fn token_bucket(line: &str) -> Result<Gcra, NotationError> {
    let (count, rest) = number(line)?;
    let text = after_per(rest).ok_or(NotationError::Form)?;
    let end = text.find([' ', ',']).unwrap_or(text.len());
    let (written, rest) = text.split_at(end);
    if ["week", "month"].contains(&written) {
        let quota = format!("{count} per calendar {written}");
        return Err(NotationError::Instead(quota));
    }
    let period = period("period", written)?;
    let (rest, max_wait) = match rest.split_once(", waiting up to ") {
        Some((rest, wait)) => (rest, duration("wait", wait)?),
        None => (rest, Duration::ZERO),
    };
    let burst = match rest.trim_start() {
        "" => count,
        rest => burst(rest)?,
    };
    Ok(Gcra::checked(burst, count, period)?.waiting(max_wait)?)
}

/// Reads `burst 20`, or `, 20 at once` as limits are displayed.
fn burst(text: &str) -> Result<u32, NotationError> {
    if let Some(text) = text.strip_prefix(',') {
        let (burst, rest) = number(text.trim_start())?;
        return match rest.split_whitespace().eq(["at", "once"]) {
            true => Ok(burst),
            false => Err(NotationError::Form),
        };
    }
    match number(after_word(text, "burst").ok_or(NotationError::Form)?)? {
        (burst, "") => Ok(burst),
        _ => Err(NotationError::Form),
    }
}
