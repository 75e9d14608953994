use std::{fmt, time::Duration};

use super::LimitError;
use crate::id::shortened;

/// The units of Go's durations and their nanoseconds. Both signs for micro are Go's.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

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
    read_duration(text).map_err(LimitError::text)
}

/// Does the same, and returns the message of an error.
fn read_duration(text: &str) -> Result<Duration, String> {
    parse_parts(text).map_err(|remedy| {
        let text = shortened(text);
        format!("`{text}` is not a duration: {remedy}")
    })
}

/// Reads the duration of a field.
pub(super) fn duration(field: &'static str, text: &str) -> Result<Duration, LimitError> {
    read_duration(text).map_err(|mistake| LimitError::value(field, format!("{field}: {mistake}")))
}

const DECIMALS: u128 = 10_u128.pow(13);

const SYNTAX: &str = "write numbers with units, such as `1s`, `180m`, `1h30m` or `1.5h`";
const NO_UNIT: &str = "add a unit, one of ns, us, ms, s, m, h";
const UNIT: &str = "units are ns, us, ms, s, m and h; write a day as `24h`";
const TOO_LONG: &str = "it is too long: shorten it";
const TOO_FINE: &str = "it has a fraction of a nanosecond: round it";

fn parse_parts(text: &str) -> Result<Duration, &'static str> {
    if text.is_empty() {
        return Err(SYNTAX);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let part;
        (part, rest) = parse_part(rest)?;
        total = total.checked_add(part).ok_or(TOO_LONG)?;
    }
    Ok(total)
}

/// Formats a duration like Go: `1s`, `3h0m0s`, `1.5ms`, `0s`. [`parse_duration`](super::parse_duration) reads it.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let minutes = duration.as_secs() / 60;
    let seconds = duration.as_secs() % 60;
    match nanos {
        0 => "0s".into(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => decimal(nanos, 1_000, "µs"),
        1_000_000..1_000_000_000 => decimal(nanos, 1_000_000, "ms"),
        1_000_000_000..60_000_000_000 => decimal(nanos, 1_000_000_000, "s"),
        _ => {
            let rest = Duration::new(seconds, duration.subsec_nanos()).as_nanos();
            let seconds = decimal(rest, 1_000_000_000, "s");
            match (minutes / 60, minutes % 60) {
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    }
}

/// The text for an endless duration, where one is allowed.
const INFINITE: &str = "infinite";

/// Reads a duration, which can be endless.
pub(crate) fn parse_span(field: &'static str, text: &str) -> Result<Duration, LimitError> {
    match text {
        INFINITE => Ok(Duration::MAX),
        text => duration(field, text),
    }
}

/// Writes a duration, which can be endless.
pub(super) fn format_span(span: Duration) -> String {
    match span {
        Duration::MAX => INFINITE.into(),
        span => format_duration(span),
    }
}

/// A duration in a limit's text: in the notation of files or, in the alternate form (`{:#}`), in words.
pub(super) struct DurationText(pub(super) Duration);

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            f.write_str(&in_words(self.0))
        } else {
            f.write_str(&format_span(self.0))
        }
    }
}

/// The period of a rate, after the word `per`: `1m0s` or, in the alternate form, `minute`.
pub(super) struct PeriodText(pub(super) Duration);

impl fmt::Display for PeriodText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = WORDS.iter().find(|(length, _)| *length == self.0.as_secs());
        match unit.filter(|_| f.alternate() && self.0.subsec_nanos() == 0) {
            Some((_, unit)) => f.write_str(unit),
            None => DurationText(self.0).fmt(f),
        }
    }
}

/// The units of durations in words, in seconds.
const WORDS: [(u64, &str); 4] = [
    (24 * 60 * 60, "day"),
    (60 * 60, "hour"),
    (60, "minute"),
    (1, "second"),
];

/// Writes a duration for people, exactly: `36 s`, `15 minutes`, `24 hours`, `7 days`.
fn in_words(duration: Duration) -> String {
    let secs = duration.as_secs();
    if duration.subsec_nanos() > 0 {
        return format_span(duration);
    }
    // Up to two minutes are written in seconds, and up to two days in hours, as people say them.
    let mut longer = WORDS.iter().filter(|(length, _)| *length > 1);
    match longer.find(|(length, _)| secs > 2 * length && secs.is_multiple_of(*length)) {
        Some((length, unit)) => format!("{} {unit}s", secs / length),
        None => format!("{secs} s"),
    }
}

fn decimal(nanos: u128, unit: u128, name: &str) -> String {
    let width = unit.ilog10() as usize;
    let fraction = format!("{:0width$}", nanos % unit);
    match fraction.trim_end_matches('0') {
        "" => format!("{}{name}", nanos / unit),
        digits => format!("{}.{digits}{name}", nanos / unit),
    }
}

/// Parses the first number and its unit. Returns the rest of the text with it.
fn parse_part(text: &str) -> Result<(Duration, &str), &'static str> {
    let is_number = |c: char| c == '.' || c.is_ascii_digit();
    let unit_at = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let (number, rest) = text.split_at(unit_at);
    let (unit, rest) = rest.split_at(rest.find(is_number).unwrap_or(rest.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return Err(SYNTAX);
    }
    if unit.is_empty() {
        return Err(NO_UNIT);
    }
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(UNIT)?;
    let whole: u64 = format!("0{whole}").parse().map_err(|_| TOO_LONG)?;
    // Whole nanoseconds never need more than 13 decimals, not even of an hour.
    let parts = match fraction.trim_end_matches('0') {
        digits if digits.len() > 13 => return Err(TOO_FINE),
        digits => format!("{digits:0<13}").parse::<u128>(),
    };
    let parts = parts.map_err(|_| SYNTAX)? * u128::from(*unit);
    if !parts.is_multiple_of(DECIMALS) {
        return Err(TOO_FINE);
    }
    let nanos = u128::from(whole) * u128::from(*unit) + parts / DECIMALS;
    let secs = u64::try_from(nanos / 1_000_000_000).map_err(|_| TOO_LONG)?;
    Ok((Duration::new(secs, (nanos % 1_000_000_000) as u32), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_read() {
        let cases = [
            ("1s", 1_000_000_000),
            ("180m", 10_800_000_000_000),
            ("168h", 604_800_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("0s", 0),
            ("100ns", 100),
            ("1us", 1_000),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("1.5ms", 1_500_000),
            ("1h1m1s1ms1us1ns", 3_661_001_001_001),
            ("0.000000001s", 1),
            ("0.0000000000025h", 9),
        ];
        for (text, nanos) in cases {
            assert_eq!(
                read_duration(text),
                Ok(Duration::from_nanos(nanos)),
                "{text}"
            );
        }
    }

    #[test]
    fn durations_for_people_are_exact() {
        for (text, in_words, period) in [
            ("1s", "1 s", "second"),
            ("36s", "36 s", "36 s"),
            ("1m", "60 s", "minute"),
            ("2m", "120 s", "120 s"),
            ("90s", "90 s", "90 s"),
            ("15m", "15 minutes", "15 minutes"),
            ("1h", "60 minutes", "hour"),
            ("1h30m", "90 minutes", "90 minutes"),
            ("3h", "3 hours", "3 hours"),
            ("24h", "24 hours", "day"),
            ("168h", "7 days", "7 days"),
            ("1.5s", "1.5s", "1.5s"),
        ] {
            let duration = read_duration(text).unwrap();
            assert_eq!(format!("{:#}", DurationText(duration)), in_words);
            assert_eq!(format!("{:#}", PeriodText(duration)), period);
        }
    }

    #[test]
    fn other_durations_are_refused_with_a_reason() {
        let cases = [
            ("", "write numbers"),
            ("s", "write numbers"),
            (".s", "write numbers"),
            ("1.2.3s", "write numbers"),
            ("-1s", "write numbers"),
            ("1s ", "units are"),
            ("1 s", "units are"),
            (
                "1d",
                "units are ns, us, ms, s, m and h; write a day as `24h`",
            ),
            ("7 days", "write a day as `24h`"),
            ("1d12h", "write a day as `24h`"),
            ("1y", "units are"),
            ("d", "write numbers"),
            ("1D", "units are"),
            ("1S", "units are"),
            ("infinite", "write numbers"),
            ("0", "add a unit"),
            ("60", "add a unit"),
            ("1h30", "add a unit"),
            ("99999999999999999999h", "too long"),
            ("18446744073709551615h", "too long"),
            ("0.1ns", "fraction of a nanosecond"),
            ("0.0000000001s", "fraction of a nanosecond"),
            ("0.00000000000025h", "fraction of a nanosecond"),
        ];
        for (text, reason) in cases {
            let error = read_duration(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn durations_are_written_as_in_go() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (60_000_000_000, "1m0s"),
            (245_000_000_000, "4m5s"),
            (10_800_000_000_000, "3h0m0s"),
            (5_400_001_000_000_000, "1500h0m1s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(format_duration(Duration::from_nanos(nanos)), text);
            assert_eq!(
                read_duration(text),
                Ok(Duration::from_nanos(nanos)),
                "{text}"
            );
        }
    }
}
