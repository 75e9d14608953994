//! Parts of a limit in one line: numbers, words, and spans of time.

use std::time::Duration;

use super::{
    duration::{parse_span, read_duration},
    limit_error::NotationError,
};

/// The words for periods. All other periods are durations, such as `15m`.
const PERIODS: [(&[&str], u64); 4] = [
    (&["s", "sec", "second"], 1),
    (&["m", "min", "minute"], 60),
    (&["h", "hour"], 60 * 60),
    (&["d", "day"], 24 * 60 * 60),
];

/// Takes a number off the front.
pub(super) fn number(text: &str) -> Result<(u32, &str), NotationError> {
    let digits = |c: char| c.is_ascii_digit();
    let end = text.find(|c| !digits(c)).unwrap_or(text.len());
    match text.split_at(end) {
        ("", _) => Err(NotationError::Form),
        (number, rest) => {
            let number = number.parse().map_err(|_| NotationError::LargeNumber)?;
            Ok((number, rest.trim_start()))
        }
    }
}

/// Returns what follows a word at the front, if the text begins with this word and a space.
pub(super) fn after_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(word)?;
    rest.starts_with(' ').then(|| rest.trim_start())
}

/// Returns what follows `/` or `per` at the front.
pub(super) fn after_per(text: &str) -> Option<&str> {
    text.strip_prefix('/')
        .map(str::trim_start)
        .or_else(|| after_word(text, "per"))
}

/// Reads a period: a word, or a duration.
pub(super) fn period(field: &'static str, word: &str) -> Result<Duration, NotationError> {
    if word.is_empty() {
        return Err(NotationError::Form);
    }
    let known = PERIODS.iter().find(|(words, _)| words.contains(&word));
    match known {
        Some((_, secs)) => Ok(Duration::from_secs(*secs)),
        None => duration(field, word),
    }
}

/// Reads a duration.
pub(super) fn duration(field: &'static str, text: &str) -> Result<Duration, NotationError> {
    read_duration(text).map_err(|source| NotationError::Duration { field, source })
}

/// Reads a duration, or `infinite`.
pub(super) fn span(field: &'static str, text: &str) -> Result<Duration, NotationError> {
    parse_span(text).map_err(|source| NotationError::Duration { field, source })
}
