use std::{fmt, num::NonZeroU32, str::FromStr};

use crate::algorithm::{LimitError, NotationError};

/// The part of a limit's burst or quota that one process may hold in advance. See [`Lease`](super::Lease).
///
/// ```
/// use tollgate::backend::LeaseShare;
///
/// assert_eq!("5%".parse(), Ok(LeaseShare::new(5, 100)));
/// assert_eq!("2.5%".parse::<LeaseShare>()?.of(1000), 25);
/// # Ok::<_, tollgate::limit::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseShare {
    /// In thousandths of a per cent.
    parts: NonZeroU32,
}

impl LeaseShare {
    const WHOLE: u32 = 100_000;

    /// A part of the whole, rounded down to thousandths of a per cent.
    ///
    /// # Panics
    ///
    /// If it is less than a thousandth of a per cent, or more than all.
    #[must_use]
    #[track_caller]
    pub const fn new(part: u32, of: u32) -> Self {
        assert!(
            0 < part && part <= of,
            "a lease is a part of the burst: use `lease(1, 20)` for a twentieth"
        );
        let parts = part as u64 * Self::WHOLE as u64 / of as u64;
        #[expect(clippy::cast_possible_truncation, reason = "it is at most the whole")]
        match NonZeroU32::new(parts as u32) {
            Some(parts) => Self { parts },
            None => panic!("a lease is at least a thousandth of a per cent"),
        }
    }

    /// Returns the share of a burst, rounded down.
    #[must_use]
    pub fn of(self, burst: u32) -> u32 {
        let units = u64::from(burst) * u64::from(self.parts.get()) / u64::from(Self::WHOLE);
        u32::try_from(units).unwrap_or(burst)
    }
}

impl fmt::Display for LeaseShare {
    /// Writes `5%` or `2.5%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.parts.get() / 1000, self.parts.get() % 1000);
        write!(f, "{whole}")?;
        if rest > 0 {
            let digits = format!("{rest:03}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("%")
    }
}

impl FromStr for LeaseShare {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let parse = || {
            let number = text.strip_suffix('%')?;
            let (whole, rest) = number.split_once('.').unwrap_or((number, "0"));
            let is_number = |digits: &str| {
                !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
            };
            if !is_number(whole) || !is_number(rest) || rest.len() > 3 {
                return None;
            }
            let whole: u32 = whole.parse().ok().filter(|whole| *whole <= 100)?;
            let parts = whole * 1000 + format!("{rest:0<3}").parse::<u32>().ok()?;
            let parts = NonZeroU32::new(parts).filter(|parts| parts.get() <= Self::WHOLE)?;
            Some(Self { parts })
        };
        parse().ok_or(LimitError::new(NotationError::LeaseShare))
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
            "5%%",
        ] {
            assert!(text.parse::<LeaseShare>().is_err(), "{text}");
        }
    }
}
