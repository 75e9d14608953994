use std::{fmt, str::FromStr};

use crate::{algorithm::LimitError, id::shortened};

/// A fixed offset from UTC, in whole minutes, from `-23:59` to `+23:59`.
///
/// It is not a time zone, so it ignores daylight saving time.
///
/// ```
/// use tollgate::quota::UtcOffset;
///
/// assert_eq!("+05:30".parse(), Ok(UtcOffset::minutes(5 * 60 + 30)));
/// assert_eq!(UtcOffset::hours(-8).to_string(), "-08:00");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcOffset {
    minutes: i16,
}

impl UtcOffset {
    /// No offset.
    pub const UTC: Self = Self { minutes: 0 };

    const END: i16 = 24 * 60;

    /// Creates an offset of `minutes` ahead of UTC or, if negative, behind it.
    ///
    /// # Panics
    ///
    /// If it is a day or more.
    #[must_use]
    #[track_caller]
    pub const fn minutes(minutes: i16) -> Self {
        assert!(
            -Self::END < minutes && minutes < Self::END,
            "an offset from UTC is less than 24 hours"
        );
        Self { minutes }
    }

    /// Creates an offset of `hours` ahead of UTC or, if negative, behind it.
    ///
    /// # Panics
    ///
    /// If it is a day or more.
    #[must_use]
    #[track_caller]
    pub const fn hours(hours: i8) -> Self {
        Self::minutes(hours as i16 * 60)
    }

    pub(crate) const fn micros(self) -> i64 {
        self.minutes as i64 * 60_000_000
    }
}

impl fmt::Display for UtcOffset {
    /// Writes `+02:00`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.minutes < 0 { '-' } else { '+' };
        let minutes = self.minutes.unsigned_abs();
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

impl FromStr for UtcOffset {
    type Err = LimitError;

    /// Reads what [`Display`](fmt::Display) writes: a sign, two digits, a colon and two digits.
    fn from_str(text: &str) -> Result<Self, LimitError> {
        let number = |digits: &str| {
            let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<i16>().ok().filter(|_| is_number)
        };
        let read = || {
            let (sign, time) = text.split_at_checked(1)?;
            let (hours, minutes) = time.split_once(':')?;
            let hours = number(hours)?;
            let minutes = number(minutes)?;
            let ahead = Some(hours * 60 + minutes).filter(|_| hours < 24 && minutes < 60)?;
            match sign {
                "+" => Some(Self::minutes(ahead)),
                "-" => Some(Self::minutes(-ahead)),
                _ => None,
            }
        };
        read().ok_or_else(|| {
            let text = shortened(text);
            let remedy =
                "write an offset from UTC as `+02:00` or `-03:30`, from `-23:59` to `+23:59`";
            LimitError::value("utc_offset", format!("utc_offset is `{text}`: {remedy}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_as_they_are_written() {
        for minutes in -1439..=1439 {
            let offset = UtcOffset::minutes(minutes);
            assert_eq!(offset.to_string().parse(), Ok(offset));
        }
        assert_eq!(UtcOffset::minutes(-210).to_string(), "-03:30");
        assert_eq!(UtcOffset::UTC.to_string(), "+00:00");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "", "0", "Z", "UTC", "02:00", "+2:00", "+24:00", "+02:60", "+0200", "+02:0", "+02:000",
            "+aa:00", "+02:0é", "−02:00", " +02:00", "+-2:00",
        ] {
            assert!(text.parse::<UtcOffset>().is_err(), "{text}");
        }
    }
}
