//! Reads the values of lines: times, addresses and paths.

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroUsize,
};

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::TimeZone,
};

use super::LineError;

const SECOND: i128 = 1_000_000;

/// Numbers below this, a year after 1970, are durations rather than instants.
pub(super) const YEAR: u64 = 365 * 24 * 60 * 60 * 1_000_000;

/// Reads a time, in microseconds since the epoch: by RFC 3339, as web servers write it, or as a number. A time without an offset is
/// in UTC.
pub(super) fn instant(text: &str) -> Result<u64, LineError> {
    let text = text.trim();
    // Parsers take dates for midnight.
    let is_short = !text.contains([':', 'T']) && (text.len() == 8 || text.contains(['-', '/']));
    if is_short && text.replace('/', "-").parse::<Date>().is_ok() {
        return Err(LineError::Date);
    }
    let us = number(text).or_else(|| written(text));
    match us.ok_or(LineError::Time)? {
        ..0 => Err(LineError::BeforeEpoch),
        us => {
            let us = u64::try_from(us).ok();
            let end = tollgate::clock::Timestamp::END.as_micros();
            us.filter(|us| *us < end).ok_or(LineError::TooLate)
        }
    }
}

/// Reads `10/Oct/2000:13:55:36 -0700`, with or without milliseconds and offset, or a date and a time in digits.
fn written(text: &str) -> Option<i128> {
    let with_offset = Timestamp::strptime("%d/%b/%Y:%H:%M:%S%.f %z", text);
    let civil = || {
        let common = DateTime::strptime("%d/%b/%Y:%H:%M:%S%.f", text);
        common.or_else(|_| text.replace('/', "-").parse())
    };
    let instant = with_offset.or_else(|_| text.parse());
    let instant = instant.or_else(|_| TimeZone::UTC.to_timestamp(civil()?));
    Some(instant.ok()?.as_microsecond().into())
}

/// Reads a number such as `1762000000.123` or `1.762e9`: seconds since the epoch or, if it has too many digits for that, milli-,
/// micro- or nanoseconds.
fn number(text: &str) -> Option<i128> {
    let (decimal, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: usize = exponent.parse().ok().filter(|exponent| *exponent <= 24)?;
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    let (sign, whole) = match whole.strip_prefix('-') {
        Some(whole) => (-1, whole),
        None => (1, whole),
    };
    let fraction = format!("{fraction:0<exponent$}");
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(&fraction) || whole.is_empty() {
        return None;
    }
    let (shifted, fraction) = fraction.split_at(exponent);
    let whole = [whole, shifted].concat();
    let number: i128 = whole.parse().ok().filter(|_| whole.len() <= 24)?;
    let millionths: i128 = format!("{fraction:0<6.6}").parse().ok()?;
    // Each bound is the year 5138 in its unit.
    let us = match number {
        0..100_000_000_000 => number * SECOND + millionths,
        100_000_000_000..100_000_000_000_000 => number * 1_000 + millionths / 1_000,
        100_000_000_000_000..100_000_000_000_000_000 => number,
        _ => number / 1_000,
    };
    Some(sign * us)
}

/// Reads an address with or without a port. From a list, it reads the address at the position `hops`, counted from the right.
pub(super) fn address(text: &str, hops: Option<NonZeroUsize>) -> Result<IpAddr, LineError> {
    let text = text.trim_matches(|c: char| c == '"' || c.is_whitespace());
    let one = match hops {
        _ if !text.contains(',') => text,
        Some(hops) => {
            let one = text.rsplit(',').nth(hops.get() - 1);
            one.ok_or(LineError::FewHops)?.trim()
        }
        // A list without any address counts as missing.
        None if text
            .split(',')
            .all(|one| parse_address(one.trim()).is_none()) =>
        {
            text
        }
        None => return Err(LineError::List),
    };
    parse_address(one).ok_or(LineError::NoAddress)
}

fn parse_address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse().map(|socket: SocketAddr| socket.ip());
    let bracketed = || text.trim_start_matches('[').trim_end_matches(']').parse();
    let without_zone = || text.split('%').next().unwrap_or(text).parse();
    let read = text.parse().or_else(|_| with_port());
    let read = read.or_else(|_| bracketed()).or_else(|_| without_zone());
    read.ok()
}

/// Splits `GET /path?query HTTP/1.1`. A text that is no request, such as the bytes of TLS on a plain port, has neither part.
pub(super) fn method_and_path(request: &str) -> (String, String) {
    let mut words = request.split(' ');
    match (words.next(), words.next()) {
        (Some(method), Some(target)) => (method.to_owned(), path_of(target).to_owned()),
        _ => Default::default(),
    }
}

/// The path of a request's target, which may be a whole URL.
pub(super) fn path_of(target: &str) -> &str {
    let target = match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => {
            rest.find('/').map_or("/", |slash| &rest[slash..])
        }
        _ => target,
    };
    let end = target.find(['?', '#']).unwrap_or(target.len());
    &target[..end]
}
