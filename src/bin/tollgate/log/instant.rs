//! The times of log lines, in microseconds since the epoch.

use jiff::{civil::DateTime, tz::TimeZone};
use tollgate::clock::Timestamp;

use super::unreadable::Reason;

const SECOND: i128 = 1_000_000;

/// Checks that decisions can be made at an instant.
fn usable(instant: Option<i128>) -> Result<u64, Reason> {
    let us = instant.ok_or(Reason::Time)?;
    if us < 0 {
        return Err(Reason::BeforeEpoch);
    }
    let us = u64::try_from(us).ok();
    let us = us.filter(|us| *us < Timestamp::END.as_micros());
    us.ok_or(Reason::TooLate)
}

/// Reads `10/Oct/2000:13:55:36 -0700`, as web servers write it.
pub(super) fn of_common_format(text: &[u8]) -> Result<u64, Reason> {
    usable(common(text))
}

/// Reads a time as text: by RFC 3339, as web servers write it, without an offset (UTC), or as a number.
pub(super) fn of_text(text: &str) -> Result<u64, Reason> {
    let text = text.trim();
    let instant = number(text).or_else(|| common(text.as_bytes()));
    usable(instant.or_else(|| calendar(text)))
}

fn common(text: &[u8]) -> Option<i128> {
    let instant = jiff::Timestamp::strptime("%d/%b/%Y:%H:%M:%S %z", text);
    Some(instant.ok()?.as_microsecond().into())
}

fn calendar(text: &str) -> Option<i128> {
    let instant = text.parse().ok().or_else(|| {
        let civil: DateTime = text.replace('/', "-").parse().ok()?;
        TimeZone::UTC.to_timestamp(civil).ok()
    });
    instant.map(|instant| instant.as_microsecond().into())
}

/// Reads a number such as `1762000000.123`: seconds since the epoch or, if it has too many digits for that, milli-, micro- or
/// nanoseconds.
fn number(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (sign, whole) = match whole.strip_prefix('-') {
        Some(whole) => (-1, whole),
        None => (1, whole),
    };
    if !is_digits(whole) || !is_digits(fraction) || whole.len() > 24 {
        return None;
    }
    let number: i128 = whole.parse().ok()?;
    // Each unit ends in the year 5138.
    let us = match number {
        0..100_000_000_000 => number * SECOND + millionths(fraction),
        100_000_000_000..100_000_000_000_000 => number * 1_000 + millionths(fraction) / 1_000,
        100_000_000_000_000..100_000_000_000_000_000 => number,
        _ => number / 1_000,
    };
    Some(sign * us)
}

/// The first six digits after a decimal point.
fn millionths(digits: &str) -> i128 {
    let six = digits.bytes().chain(std::iter::repeat(b'0')).take(6);
    six.fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0'))
}
