//! Token buckets in one line, as `10/s burst 20`, and in files.

use std::{fmt, time::Duration};

use super::Gcra;
use crate::algorithm::{
    LimitError,
    duration::format_duration,
    notation::{
        FieldReader, Form, Notation, WrittenFields, after_per, after_word, duration, form, instead,
        number, period,
    },
};

impl Notation for Gcra {
    const FORM: Form = Form {
        fields: &["burst", "count", "period"],
        words: "burst, count and period",
        options: &[("max_wait", "no other kind of limit has a line to wait in")],
    };

    fn parse(line: &str) -> Option<Result<Self, LimitError>> {
        Some(token_bucket(line))
    }

    fn read<F: FieldReader>(fields: &F) -> Option<Self> {
        let (burst, count) = (fields.whole("burst"), fields.whole("count"));
        let (period, max_wait) = (fields.duration("period"), fields.duration("max_wait"));
        fields.require(&["burst", "count", "period"]);
        let gcra = Self::new(burst?, count?, period?);
        fields.checked(gcra.and_then(|gcra| gcra.with_max_wait(max_wait.unwrap_or_default())))
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
fn token_bucket(line: &str) -> Result<Gcra, LimitError> {
    let (count, rest) = number(line)?;
    let text = after_per(rest).ok_or_else(form)?;
    let end = text.find([' ', ',']).unwrap_or(text.len());
    let (written, rest) = text.split_at(end);
    if ["week", "month"].contains(&written) {
        return Err(instead(format_args!("{count} per calendar {written}")));
    }
    let period = period("period", written)?;
    let (rest, max_wait) = match rest.split_once(", waiting up to ") {
        Some((rest, wait)) => (rest, duration("max_wait", wait)?),
        None => (rest, Duration::ZERO),
    };
    let burst = match rest.trim_start() {
        "" => count,
        rest => burst(rest)?,
    };
    Gcra::new(burst, count, period)?.with_max_wait(max_wait)
}

/// Reads `burst 20`, or `, 20 at once` as limits are displayed.
fn burst(text: &str) -> Result<u32, LimitError> {
    if let Some(text) = text.strip_prefix(',') {
        let (burst, rest) = number(text.trim_start())?;
        return match rest.split_whitespace().eq(["at", "once"]) {
            true => Ok(burst),
            false => Err(form()),
        };
    }
    match number(after_word(text, "burst").ok_or_else(form)?)? {
        (burst, "") => Ok(burst),
        _ => Err(form()),
    }
}
