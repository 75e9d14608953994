//! A share of clients, such as `0.1%`.

use std::str::FromStr;

/// A share in billionths.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientShare(u64);

/// All clients, in billionths.
const WHOLE: u64 = 1_000_000_000;

impl ClientShare {
    /// Returns this share of a number, rounded down.
    pub(super) fn of(self, number: usize) -> usize {
        let part = number as u128 * u128::from(self.0) / u128::from(WHOLE);
        usize::try_from(part).unwrap_or(number)
    }

    pub(super) fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl FromStr for ClientShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, part) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim_end(), 100),
            None => (text.trim(), 1),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // With nine digits after the point, it is a number of billionths.
        let billionths = format!("{whole}{fraction:0<9.9}").parse::<u64>();
        match billionths.map(|billionths| billionths / part) {
            Ok(share @ 0..=WHOLE) if number.contains(|c: char| c.is_ascii_digit()) => {
                Ok(Self(share))
            }
            _ => Err(format!(
                "`{text}` is no share of clients: use a percentage such as 0.1%, or a fraction such as 0.001"
            )),
        }
    }
}
