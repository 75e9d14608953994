use std::{fmt, str::FromStr};

use super::LimitError;
use crate::id::shortened;

/// The part of each limit that one process can use on its own, as one of this number of equal processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(u32);

/// A single process, which uses the whole of each limit.
impl Default for Share {
    fn default() -> Self {
        Self(1)
    }
}

impl Share {
    /// Returns the share of each process of a fleet.
    ///
    /// # Panics
    ///
    /// If the fleet has no processes.
    #[track_caller]
    pub(crate) const fn of_fleet(processes: u32) -> Self {
        assert!(
            processes > 0,
            "a fleet has at least one process: use `fleet(1)`"
        );
        Self(processes)
    }

    pub(super) const fn processes(self) -> u32 {
        self.0
    }

    /// Returns the share of a number of units, rounded up.
    pub(super) const fn units(self, whole: u32) -> u32 {
        whole.div_ceil(self.0)
    }
}

/// The part of a limit's burst that one process may hold in advance, in thousandths of a per cent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LeaseShare(u32);

impl LeaseShare {
    const WHOLE: u32 = 100_000;

    #[track_caller]
    pub(crate) fn new(part: u32, of: u32) -> Self {
        let parts = u64::from(part) * u64::from(Self::WHOLE) / u64::from(of.max(1));
        let parts = u32::try_from(parts).unwrap_or(u32::MAX);
        assert!(
            (1..=Self::WHOLE).contains(&parts) && part <= of,
            "a lease is a part of the burst, and at least a thousandth of a per cent: use `lease(1, 20)` for a twentieth"
        );
        Self(parts)
    }

    /// Returns the share of a burst, rounded down.
    pub(crate) fn of(self, burst: u32) -> u32 {
        let units = u64::from(burst) * u64::from(self.0) / u64::from(Self::WHOLE);
        u32::try_from(units).unwrap_or(burst)
    }
}

/// Writes `5%` or `2.5%`.
impl fmt::Display for LeaseShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl FromStr for LeaseShare {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let parse = || {
            let number = text.strip_suffix('%')?;
            let (whole, rest) = number.split_once('.').unwrap_or((number, "0"));
            let is_short = [whole, rest]
                .iter()
                .all(|digits| (1..=3).contains(&digits.len()));
            let digits = format!("{whole}{rest:0<3}");
            let is_number = is_short && digits.bytes().all(|byte| byte.is_ascii_digit());
            let parts = digits.parse().ok().filter(|_| is_number)?;
            (1..=Self::WHOLE).contains(&parts).then_some(Self(parts))
        };
        parse().ok_or_else(|| {
            let text = shortened(text);
            let remedy = "write a percentage above 0 and up to 100, as `5%` or `2.5%`";
            let message = format!("lease is `{text}`: it is not a share of the burst: {remedy}");
            LimitError::value("lease", message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_read_and_written() {
        for text in ["5%", "100%", "2.5%", "0.001%", "33.333%"] {
            let share: LeaseShare = text.parse().unwrap();
            assert_eq!(share.to_string(), text);
        }
        assert_eq!("5.0%".parse(), Ok(LeaseShare::new(1, 20)));
        assert_eq!(LeaseShare::new(1, 3).to_string(), "33.333%");
        assert_eq!(LeaseShare::new(1, 3).of(1000), 333);
        for text in [
            "", "%", "5", "0%", "0.0%", "101%", "100.1%", "-5%", "5 %", "5.%", ".5%", "1.2345%",
            "5%%", "+5%", "5.+1%",
        ] {
            assert!(text.parse::<LeaseShare>().is_err(), "{text}");
        }
    }
}
