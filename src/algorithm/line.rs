//! Parts of a limit in one line: numbers, words, and spans of time.

use std::time::Duration;

use super::{
    duration::{parse_span, read_duration},
    limit_error::{LimitError, NotationError},
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

/// Parses a duration in Go's notation: `1s`, `180m`, `168h`, `1h30m`, `1.5h`, `0s`.
///
/// The units are `ns`, `us` (or `µs`), `ms`, `s`, `m` and `h`. Numbers can have a fraction. Unlike in Go, negative
/// durations, a bare `0` and fractions of a nanosecond are errors, and nothing is rounded.
///
/// ```
/// use std::time::Duration;
///
/// use tollgate::limit::{format_duration, parse_duration};
///
/// let duration = parse_duration("1h30m")?;
/// assert_eq!(duration, Duration::from_secs(5400));
/// assert_eq!(format_duration(duration), "1h30m0s");
/// # Ok::<_, tollgate::limit::LimitError>(())
/// ```
///
/// # Errors
///
/// If the text is not such a duration, or longer than [`Duration::MAX`].
pub fn parse_duration(text: &str) -> Result<Duration, LimitError> {
    read_duration(text).map_err(|error| LimitError::new(NotationError::Text(error)))
}
