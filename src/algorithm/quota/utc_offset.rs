use std::{fmt, str::FromStr};

use crate::algorithm::LimitError;

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

    /// Returns the minutes ahead of UTC; negative if it is behind.
    #[must_use]
    pub const fn as_minutes(self) -> i16 {
        self.minutes
    }

    pub(super) const fn micros(self) -> i64 {
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
        let invalid = || {
            LimitError::value(
                "utc_offset",
                "write an offset from UTC as `+02:00` or `-03:30`, from `-23:59` to `+23:59`",
            )
        };
        let &[sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] = text.as_bytes() else {
            return Err(invalid());
        };
        let number = |tens: u8, ones: u8| match tens.is_ascii_digit() && ones.is_ascii_digit() {
            true => Ok(i16::from(tens - b'0') * 10 + i16::from(ones - b'0')),
            false => Err(invalid()),
        };
        let (hours, minutes) = (number(h1, h2)?, number(m1, m2)?);
        if hours > 23 || minutes > 59 {
            return Err(invalid());
        }
        let ahead = hours * 60 + minutes;
        Ok(Self::minutes(if sign == b'-' { -ahead } else { ahead }))
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
