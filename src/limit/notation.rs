//! Limits in one line: `10/s burst 20`, `5 per 15m`, `1000 per day`, `5 in any 15m`.

use std::{str::FromStr, time::Duration};

use thiserror::Error;

use super::{
    duration::{DurationError, parse_duration},
    limit::Limit,
};
use crate::{
    gcra::{Gcra, GcraError},
    id::shortened,
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

    /// Parses a count, `/` or `per`, a period, and an optional `burst` with the number of requests that can pass at
    /// once (the count, by default). A period is `second`, `minute`, `hour`, `day`, one of their first letters, or a
    /// duration such as `15m` or `1h30m`. The result is a token bucket: `1000 per day` admits up to 1999 requests in
    /// one day, and [`Limit::quota`] at most 1000. `5 in any 15m`, which is a [window](Limit::window), `unlimited`
    /// and `blocked` are accepted too.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    ///
    /// assert_eq!("10/s burst 20".parse(), Ok(Limit::per_second(10).burst(20)));
    /// assert_eq!("5 per 15m".parse(), Ok(Limit::per(5, Duration::from_secs(15 * 60))));
    /// assert_eq!("1000 per day".parse(), Ok(Limit::per_day(1000)));
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
            "unlimited" => Ok(Self::UNLIMITED),
            "blocked" => Ok(Self::BLOCKED),
            line => rate(line).map_err(error),
        }
    }
}

fn rate(line: &str) -> Result<Limit, LimitProblem> {
    let (count, rest) = number(line)?;
    let rest = rest.trim_start();
    if let Ok(rest) = word(rest, "in") {
        let window = word(rest.trim_start(), "any")?.trim();
        return Ok(Limit::from(Window::new(count, period(window)?)?));
    }
    let rest = match rest.strip_prefix('/') {
        Some(rest) => rest,
        None => word(rest, "per")?,
    };
    let rest = rest.trim_start();
    let end = rest.find([' ', ',']).unwrap_or(rest.len());
    let (written, rest) = rest.split_at(end);
    let period = period(written)?;
    let burst = match rest.trim_start() {
        "" => count,
        rest => burst(rest)?,
    };
    Ok(Limit::new(burst, count, period)?)
}

/// `burst 20`, or `, 20 at once` as limits are displayed.
fn burst(text: &str) -> Result<u32, LimitProblem> {
    if let Some(text) = text.strip_prefix(',') {
        let (burst, rest) = number(text.trim_start())?;
        return match rest.split_whitespace().eq(["at", "once"]) {
            true => Ok(burst),
            false => Err(LimitProblem::Form),
        };
    }
    match number(word(text, "burst")?.trim_start())? {
        (burst, "") => Ok(burst),
        _ => Err(LimitProblem::Form),
    }
}

fn period(word: &str) -> Result<Duration, LimitProblem> {
    if word.is_empty() {
        return Err(LimitProblem::Form);
    }
    let known = PERIODS.iter().find(|(words, _)| words.contains(&word));
    match known {
        Some((_, secs)) => Ok(Duration::from_secs(*secs)),
        None => Ok(parse_duration(word)?),
    }
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

/// Takes a word off the front.
fn word<'a>(text: &'a str, word: &str) -> Result<&'a str, LimitProblem> {
    let rest = text.strip_prefix(word).ok_or(LimitProblem::Form)?;
    rest.starts_with(' ')
        .then_some(rest)
        .ok_or(LimitProblem::Form)
}

/// Reads a limit that is written in one line.
pub(super) fn token_bucket(text: &str) -> Option<Gcra> {
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
    #[error("write it as `10/s burst 20`, `5 per 15m` or `1000 per day`")]
    Form,
    #[error("use numbers up to 4294967295")]
    Number,
    #[error(transparent)]
    Period(#[from] DurationError),
    #[error(transparent)]
    Values(#[from] GcraError),
    #[error(transparent)]
    Window(#[from] WindowError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_limits() {
        let secs = Duration::from_secs;
        for (text, limit) in [
            ("10/s", Limit::per_second(10)),
            ("10/s burst 20", Limit::per_second(10).burst(20)),
            (" 10 / s  burst  20 ", Limit::per_second(10).burst(20)),
            ("10 per second", Limit::per_second(10)),
            ("100/min", Limit::per_minute(100)),
            ("100/m burst 1", Limit::per_minute(100).burst(1)),
            ("7 per hour burst 9", Limit::per_hour(7).burst(9)),
            ("1000 per day", Limit::per_day(1000)),
            ("1000/d", Limit::per_day(1000)),
            ("5 per 15m", Limit::per(5, secs(15 * 60))),
            ("5/1h30m burst 2", Limit::per(5, secs(90 * 60)).burst(2)),
            ("1 per 100ms", Limit::every(Duration::from_millis(100))),
            ("5 in any 15m", Limit::window(5, secs(15 * 60))),
            ("5 in any hour", Limit::window(5, secs(60 * 60))),
            ("unlimited", Limit::UNLIMITED),
            ("blocked", Limit::BLOCKED),
        ] {
            assert_eq!(text.parse(), Ok(limit), "{text}");
        }
    }

    #[test]
    fn reads_what_is_displayed() {
        for limit in [
            Limit::per_second(10).burst(20),
            Limit::per_day(u32::MAX),
            Limit::every(Duration::from_micros(1)).burst(u32::MAX),
            Limit::window(5, Duration::from_secs(15 * 60)),
            Limit::UNLIMITED,
            Limit::BLOCKED,
        ] {
            assert_eq!(limit.to_string().parse(), Ok(limit.clone()), "{limit}");
        }
    }

    #[test]
    fn refuses_with_what_to_write() {
        const FORM: &str = "write it as `10/s burst 20`, `5 per 15m` or `1000 per day`";
        for (text, reason) in [
            ("", FORM),
            ("10", FORM),
            ("10/", FORM),
            ("/s", FORM),
            ("ten per day", FORM),
            ("10 s", FORM),
            ("10 pers", FORM),
            ("5 in 15m", FORM),
            ("5 in any", FORM),
            ("5 in any 15m burst 2", "`15m burst 2` is not a duration"),
            ("5000 in any 15m", "4096"),
            ("-1/s", FORM),
            ("1.5/s", FORM),
            ("10/s 20", FORM),
            ("10/s burst", FORM),
            ("10/s burst20", FORM),
            ("10/s burst 20 at once", FORM),
            ("10 per 1s, 20", FORM),
            ("10/s, burst 20", FORM),
            ("UNLIMITED", FORM),
            ("4294967296/s", "up to 4294967295"),
            ("1/s burst 4294967296", "up to 4294967295"),
            ("10/fortnight", "`fortnight` is not a duration"),
            ("10 per 15", "add a unit"),
            ("10 per 2d", "`48h`"),
            ("0/s", "count is 0"),
            ("1/s burst 0", "burst is 0"),
            ("1 per 0s", "period is 0"),
        ] {
            let error = text.parse::<Limit>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(error.starts_with(&format!("`{text}` is not a limit: ")));
        }
    }
}
