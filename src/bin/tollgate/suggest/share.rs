//! A share of clients.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// A share in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(u64);

const WHOLE: u64 = 1_000_000_000;

/// The error for a text that is no share.
#[derive(Clone, Debug, Error)]
#[error("`{0}` is no share of clients: use a percentage such as 0.1%, or a fraction such as 0.001")]
pub(crate) struct ShareError(String);

impl Share {
    /// This share of a number, rounded down.
    pub(crate) fn of(self, number: u64) -> u64 {
        let part = u128::from(number) * u128::from(self.0) / u128::from(WHOLE);
        u64::try_from(part).unwrap_or(number)
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let error = || ShareError(text.to_owned());
        let trimmed = text.trim();
        let (number, part) = match trimmed.strip_suffix('%') {
            Some(number) => (number.trim_end(), 100),
            None => (trimmed, 1),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_empty = whole.is_empty() && fraction.is_empty();
        if is_empty || !is_digits(whole) || !is_digits(fraction) || whole.len() > 3 {
            return Err(error());
        }
        // Nine digits after the point make it a number of billionths.
        let billionths = format!("{whole}{fraction:0<9.9}").parse::<u64>();
        match billionths.map_err(|_| error())? / part {
            share @ 0..=WHOLE => Ok(Self(share)),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = WHOLE / 100;
        let fraction = format!("{:07}", self.0 % percent);
        let fraction = fraction.trim_end_matches('0');
        match fraction.is_empty() {
            true => write!(f, "{} %", self.0 / percent),
            false => write!(f, "{}.{fraction} %", self.0 / percent),
        }
    }
}
