//! Limits in one line: `10/s burst 20`, `5 per 15m`, `5 in any 15m`, `1000 per calendar day`.

use std::{str::FromStr, time::Duration};

use thiserror::Error;

use super::{
    duration::{DurationError, parse_duration, parse_span},
    limit::Limit,
};
use crate::{
    gcra::{Gcra, GcraError},
    id::shortened,
    quota::{CalendarUnit, InvalidUtcOffset, Per, PerError, Quota, QuotaError},
    tiers::{Tier, Tiers, TiersError},
    transaction::Algorithm,
    window::{Window, WindowError},
};

/// The words for periods. All other periods are durations, such as `15m`.
const PERIODS: [(&[&str], u64); 4] = [
    (&["s", "sec", "second"], 1),
    (&["m", "min", "minute"], 60),
    (&["h", "hour"], 60 * 60),
    (&["d", "day"], 24 * 60 * 60),
];

impl FromStr for Limit {
    type Err = ParseLimitError;

    /// Parses a limit that is written in one line.
    ///
    /// | text | limit |
    /// |---|---|
    /// | `10/s burst 20`, `10 per second` | a token bucket; without `burst`, the burst is the count |
    /// | `5 in any 15m` | a [window](Self::window) |
    /// | `1000 per calendar day`, `1000 per calendar day at +02:00` | a [quota](Self::quota) per `hour`, `day`, `week` or `month` |
    /// | `1000 per 24h from first use` | a quota per span from first use |
    /// | `unlimited`, `blocked` | [`UNLIMITED`](Self::UNLIMITED), [`BLOCKED`](Self::BLOCKED) |
    /// | any text that [`Display`](#impl-Display-for-Limit) writes | the same limit |
    ///
    /// The period of a token bucket or a window is `second`, `minute`, `hour`, `day`, one of their first letters, or a
    /// duration such as `15m` or `1h30m`. `1000 per day` is a token bucket, and admits up to 1999 requests in one day.
    /// `1000 per calendar day` admits at most 1000.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, quota::Per};
    ///
    /// assert_eq!("10/s burst 20".parse(), Ok(Limit::per_second(10).burst(20)));
    /// assert_eq!("5 per 15m".parse(), Ok(Limit::per(5, Duration::from_secs(15 * 60))));
    /// assert_eq!("1000 per day".parse(), Ok(Limit::per_day(1000)));
    /// assert_eq!("1000 per calendar day".parse(), Ok(Limit::quota(1000, Per::Day)));
    /// ```
    ///
    /// # Errors
    ///
    /// If the text has another form, or the values are not a valid limit.
    fn from_str(text: &str) -> Result<Self, ParseLimitError> {
        let error = |problem| ParseLimitError {
            text: shortened(text),
            problem,
        };
        match text.trim() {
            UNLIMITED => Ok(Self::UNLIMITED),
            BLOCKED => Ok(Self::BLOCKED),
            line if line.contains(" for ") => tiers(line).map_err(error),
            line => limit(line).map_err(error),
        }
    }
}

const UNLIMITED: &str = "unlimited";
const BLOCKED: &str = "blocked";

/// Reads a token bucket, a window or a quota.
fn limit(line: &str) -> Result<Limit, LimitProblem> {
    let words = [UNLIMITED, BLOCKED];
    if let Some(word) = words.iter().find(|word| word.eq_ignore_ascii_case(line)) {
        return Err(LimitProblem::Instead((*word).to_owned()));
    }
    let (count, rest) = number(line)?;
    let rest = rest.trim_start();
    if let Some(rest) = after_word(rest, "in") {
        return window(count, rest);
    }
    let rest = rest
        .strip_prefix('/')
        .map(str::trim_start)
        .or_else(|| after_word(rest, "per"))
        .ok_or(LimitProblem::Form)?;
    let per = match (
        after_word(rest, "calendar"),
        rest.strip_suffix(" from first use"),
    ) {
        (Some(unit), _) => calendar(unit)?,
        (_, Some(length)) => Per::checked_first_use(duration("period", length.trim_end())?)?,
        _ => return token_bucket(count, rest),
    };
    Ok(Quota::new(count, per)?.into())
}

/// Reads `any 15m`.
fn window(limit: u32, text: &str) -> Result<Limit, LimitProblem> {
    let Some(window) = after_word(text, "any") else {
        let is_window = period("window", text).is_ok();
        let any = LimitProblem::Instead(format!("{limit} in any {text}"));
        return Err(if is_window { any } else { LimitProblem::Form });
    };
    Ok(Window::new(limit, period("window", window)?)?.into())
}

/// Reads `day` or `day at +02:00`.
fn calendar(text: &str) -> Result<Per, LimitProblem> {
    let (unit, offset) = match text.split_once(" at ") {
        Some((unit, offset)) => (unit.trim_end(), Some(offset.trim())),
        None => (text, None),
    };
    let per = Per::calendar(CalendarUnit::named(unit).ok_or(LimitProblem::Unit)?);
    Ok(match offset {
        Some(offset) => per.at_offset(offset.parse()?),
        None => per,
    })
}

/// Reads `s`, `s burst 20` or `1s, 20 at once, waiting up to 2s`.
fn token_bucket(count: u32, text: &str) -> Result<Limit, LimitProblem> {
    let end = text.find([' ', ',']).unwrap_or(text.len());
    let (written, rest) = text.split_at(end);
    if ["week", "month"].contains(&written) {
        let quota = format!("{count} per calendar {written}");
        return Err(LimitProblem::Instead(quota));
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
    let gcra = Gcra::new(burst, count, period)?;
    Ok(gcra.with_max_wait(max_wait)?.into())
}

/// Reads `burst 20`, or `, 20 at once` as limits are displayed.
fn burst(text: &str) -> Result<u32, LimitProblem> {
    if let Some(text) = text.strip_prefix(',') {
        let (burst, rest) = number(text.trim_start())?;
        return match rest.split_whitespace().eq(["at", "once"]) {
            true => Ok(burst),
            false => Err(LimitProblem::Form),
        };
    }
    match number(after_word(text, "burst").ok_or(LimitProblem::Form)?)? {
        (burst, "") => Ok(burst),
        _ => Err(LimitProblem::Form),
    }
}

/// Reads tiers as they are displayed.
fn tiers(line: &str) -> Result<Limit, LimitProblem> {
    let tiers = line.split(", then ").map(tier);
    let tiers = tiers.collect::<Result<Vec<_>, _>>()?;
    Ok(Tiers::new(tiers)?.into())
}

/// Reads `1 per 15s for 15s, cooldown 1m0s, skippable`.
fn tier(text: &str) -> Result<Tier, LimitProblem> {
    let (limit, rest) = number(text)?;
    let rest = after_word(rest.trim_start(), "per").ok_or(LimitProblem::Form)?;
    let (window, rest) = rest.split_once(" for ").ok_or(LimitProblem::Form)?;
    let mut parts = rest.split(", ");
    let active = parts.next().unwrap_or_default();
    let tier = Tier::new(limit, span("window", window)?).active(span("active", active)?);
    parts.try_fold(tier, |tier, part| match after_word(part, "cooldown") {
        Some(cooldown) => Ok(tier.cooldown(span("cooldown", cooldown)?)),
        None if part == "skippable" => Ok(tier.skippable()),
        None => Err(LimitProblem::Form),
    })
}

fn period(field: &'static str, word: &str) -> Result<Duration, LimitProblem> {
    if word.is_empty() {
        return Err(LimitProblem::Form);
    }
    let known = PERIODS.iter().find(|(words, _)| words.contains(&word));
    match known {
        Some((_, secs)) => Ok(Duration::from_secs(*secs)),
        None => duration(field, word),
    }
}

fn duration(field: &'static str, text: &str) -> Result<Duration, LimitProblem> {
    parse_duration(text).map_err(|error| LimitProblem::Duration(field, error))
}

fn span(field: &'static str, text: &str) -> Result<Duration, LimitProblem> {
    parse_span(text).map_err(|error| LimitProblem::Duration(field, error))
}

/// Takes a number off the front.
fn number(text: &str) -> Result<(u32, &str), LimitProblem> {
    let digits = |c: char| c.is_ascii_digit();
    let end = text.find(|c| !digits(c)).unwrap_or(text.len());
    match text.split_at(end) {
        ("", _) => Err(LimitProblem::Form),
        (number, rest) => Ok((number.parse().map_err(|_| LimitProblem::Number)?, rest)),
    }
}

/// Returns what follows a word at the front, if the text begins with this word and a space.
fn after_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(word)?;
    rest.starts_with(' ').then(|| rest.trim_start())
}

/// Reads a token bucket that is written in one line.
pub(super) fn as_token_bucket(text: &str) -> Option<Gcra> {
    match text.parse::<Limit>().ok()?.algorithm()? {
        Algorithm::Gcra(gcra) => Some(*gcra),
        _ => None,
    }
}

/// The error for a text that is not a limit. Returned by [`Limit`]'s [`FromStr`](Limit#impl-FromStr-for-Limit).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not a limit: {problem}")]
pub struct ParseLimitError {
    text: String,
    problem: LimitProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum LimitProblem {
    #[error("write it as `10/s burst 20`, `5 per 15m`, `5 in any 15m` or `1000 per calendar day`")]
    Form,
    #[error("write `{0}`")]
    Instead(String),
    #[error("use numbers up to 4294967295")]
    Number,
    #[error("a calendar has `hour`, `day`, `week` and `month`: write `1000 per calendar day`")]
    Unit,
    #[error("{0}: {1}")]
    Duration(&'static str, #[source] DurationError),
    #[error(transparent)]
    Values(#[from] GcraError),
    #[error(transparent)]
    Window(#[from] WindowError),
    #[error(transparent)]
    Quota(#[from] QuotaError),
    #[error(transparent)]
    Per(#[from] PerError),
    #[error(transparent)]
    Offset(#[from] InvalidUtcOffset),
    #[error(transparent)]
    Tiers(#[from] TiersError),
}

#[cfg(test)]
mod tests;
