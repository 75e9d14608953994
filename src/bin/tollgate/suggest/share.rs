//! A share of clients.

use std::{fmt, str::FromStr};

/// A share in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(u64);

const WHOLE: u64 = 1_000_000_000;

impl Share {
    /// This share of a number, rounded down.
    pub(crate) fn of(self, number: u64) -> u64 {
        let part = u128::from(number) * u128::from(self.0) / u128::from(WHOLE);
        u64::try_from(part).unwrap_or(number)
    }
}

impl Share {
    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The least share that is this part of a number of clients, in hundredths of a per cent.
    pub(crate) fn reaching(part: u64, number: u64) -> Self {
        const STEP: u64 = WHOLE / 10_000;
        let share = u128::from(part) * u128::from(WHOLE);
        let share = share.div_ceil(u128::from(number.max(1)) * u128::from(STEP));
        Self(u64::try_from(share).unwrap_or(STEP) * STEP)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || {
            format!(
                "`{text}` is no share of clients: use a percentage such as 0.1%, or a fraction such as 0.001"
            )
        };
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
