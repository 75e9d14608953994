//! The times of log lines.

use jiff::{civil::DateTime, tz::TimeZone};
use tollgate::clock::Timestamp;

use super::unreadable::Reason;

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

const SECOND: i128 = 1_000_000;

/// Checks that decisions can be made at an instant, in microseconds since the epoch.
fn usable(us: i128) -> Result<u64, Reason> {
    if us < 0 {
        return Err(Reason::BeforeEpoch);
    }
    let us = u64::try_from(us).ok();
    let us = us.filter(|us| *us < Timestamp::END.as_micros());
    us.ok_or(Reason::TooLate)
}

/// Reads `10/Oct/2000:13:55:36 -0700`, as web servers write it.
pub(super) fn of_common_format(text: &[u8]) -> Result<u64, Reason> {
    let seconds = common_seconds(text).ok_or(Reason::Time)?;
    usable(i128::from(seconds) * SECOND)
}

fn common_seconds(text: &[u8]) -> Option<i64> {
    let separators = [
        (2, b'/'),
        (6, b'/'),
        (11, b':'),
        (14, b':'),
        (17, b':'),
        (20, b' '),
    ];
    if text.len() != 26 || separators.iter().any(|(at, byte)| text[*at] != *byte) {
        return None;
    }
    let number = |at: usize| two(text[at], text[at + 1]);
    let month = MONTHS.iter().position(|name| **name == text[3..6])?;
    let month = i64::try_from(month).ok()? + 1;
    let (day, year) = (number(0)?, number(7)? * 100 + number(9)?);
    let (hour, minute, second) = (number(12)?, number(15)?, number(18)?);
    let offset = number(22)? * 3600 + number(24)? * 60;
    let offset = match text[21] {
        b'+' => offset,
        b'-' => -offset,
        _ => return None,
    };
    let is_real = (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    let days = days_since_epoch(year, month, day);
    is_real.then_some(days * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

fn two(tens: u8, ones: u8) -> Option<i64> {
    let is_number = tens.is_ascii_digit() && ones.is_ascii_digit();
    is_number.then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
}

/// The days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here, so that the day that some years
/// add is their last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let of_year = (153 * month + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + of_year - 719_468
}

/// Reads a time as text: by RFC 3339, as web servers write it, without an offset (UTC), or as a number.
pub(super) fn of_text(text: &str) -> Result<u64, Reason> {
    let text = text.trim();
    match of_number(text) {
        Err(Reason::Time) => {}
        read => return read,
    }
    if let Some(seconds) = common_seconds(text.as_bytes()) {
        return usable(i128::from(seconds) * SECOND);
    }
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return usable(i128::from(instant.as_microsecond()));
    }
    let civil = text.replace('/', "-").parse::<DateTime>();
    let utc = civil.and_then(|civil| civil.to_zoned(TimeZone::UTC));
    let instant = utc.map_err(|_| Reason::Time)?.timestamp();
    usable(i128::from(instant.as_microsecond()))
}

/// Reads a number such as `1762000000.123`: seconds since the epoch or, if it has too many digits for that, milli-, micro- or
/// nanoseconds.
fn of_number(text: &str) -> Result<u64, Reason> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (negative, whole) = match whole.strip_prefix('-') {
        Some(whole) => (true, whole),
        None => (false, whole),
    };
    let is_number = !whole.is_empty() && is_digits(whole) && is_digits(fraction);
    if !is_number || whole.len() > 24 {
        return Err(Reason::Time);
    }
    if negative {
        return Err(Reason::BeforeEpoch);
    }
    let number: i128 = whole.parse().map_err(|_| Reason::Time)?;
    // Below, each unit ends in the year 5138.
    let us = if number < 100_000_000_000 {
        number * SECOND + millionths(fraction)
    } else if number < 100_000_000_000_000 {
        number * 1_000 + millionths(fraction) / 1_000
    } else if number < 100_000_000_000_000_000 {
        number
    } else {
        number / 1_000
    };
    usable(us)
}

/// The first six digits after a decimal point.
fn millionths(digits: &str) -> i128 {
    let six = digits.bytes().chain(std::iter::repeat(b'0')).take(6);
    six.fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0'))
}
