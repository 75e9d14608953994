//! Limits in one line: `10/s burst 20`, `5 per 15m`, `5 in any 15m`, `1000 per calendar day`, `4 at once`.

use std::{fmt, str::FromStr};

use super::limit::Limit;
use crate::{
    algorithm::{Algorithm, LimitError, NotationError},
    id::shortened,
};

const UNLIMITED: &str = "unlimited";
const BLOCKED: &str = "blocked";

/// The words for limits without an algorithm. In files, they are also fields.
pub(super) static WORDS: [(&str, Limit); 2] =
    [(UNLIMITED, Limit::UNLIMITED), (BLOCKED, Limit::BLOCKED)];

/// Returns the word for a limit without an algorithm.
pub(super) fn word(limit: &Limit) -> &'static str {
    match limit.is_blocked() {
        true => BLOCKED,
        false => UNLIMITED,
    }
}

impl FromStr for Limit {
    type Err = LimitError;

    /// Parses a limit that is written in one line.
    ///
    /// | text | limit |
    /// |---|---|
    /// | `10/s burst 20`, `10 per second` | a token bucket; without `burst`, the burst is the count |
    /// | `5 in any 15m` | a [window](Self::window) |
    /// | `1000 per calendar day`, `1000 per calendar day at +02:00` | a [quota](Self::quota) per `hour`, `day`, `week` or `month` |
    /// | `1000 per 24h from first use` | a quota per span from first use |
    /// | `4 at once`, `4 at once, held for 1m` | a [concurrency limit](Self::concurrent) |
    /// | `unlimited`, `blocked` | [`UNLIMITED`](Self::UNLIMITED), [`BLOCKED`](Self::BLOCKED) |
    /// | any text that [`Display`](#impl-Display-for-Limit) writes | the same limit |
    ///
    /// The period of a token bucket or a window is `second`, `minute`, `hour`, `day`, one of their first letters, or a
    /// duration such as `15m` or `1h30m`. `1000 per day` is a token bucket, and admits up to 1999 requests in one day.
    /// `1000 per calendar day` admits at most 1000.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, quota::Per};
    ///
    /// assert_eq!("10/s burst 20".parse(), Ok(Limit::per_second(10).burst(20)));
    /// assert_eq!("5 per 15m".parse(), Ok(Limit::per(5, Duration::from_secs(15 * 60))));
    /// assert_eq!("1000 per day".parse(), Ok(Limit::per_day(1000)));
    /// assert_eq!("1000 per calendar day".parse(), Ok(Limit::quota(1000, Per::Day)));
    /// ```
    ///
    /// # Errors
    ///
    /// If the text has another form, or the values are not a valid limit.
    fn from_str(text: &str) -> Result<Self, LimitError> {
        let line = text.trim();
        let mut words = WORDS.iter();
        let word = words.find(|(word, _)| word.eq_ignore_ascii_case(line));
        let read = match word {
            Some((word, limit)) if *word == line => return Ok(limit.clone()),
            Some((word, _)) => Err(NotationError::Instead((*word).into())),
            None => Algorithm::parse(line),
        };
        read.map(Self::of).map_err(|mistake| {
            LimitError::new(NotationError::Line {
                text: shortened(text),
                mistake: Box::new(mistake),
            })
        })
    }
}

impl fmt::Display for Limit {
    /// Writes the limit in the words that [`FromStr`](#impl-FromStr-for-Limit) reads.
    ///
    /// | limit | text |
    /// |---|---|
    /// | burst, count and period | `10 per 1s, 20 at once` |
    /// | the same with a line | `10 per 1s, 20 at once, waiting up to 2s` |
    /// | window | `5 in any 15m0s` |
    /// | quota | `1000 per calendar day`, `1000 per calendar day at +02:00` or `1000 per 24h0m0s from first use` |
    /// | concurrency | `4 at once`, or `4 at once, held for 1m0s` |
    /// | tiers | `5 per 1s for infinite, then 1 per 15s for 15s, cooldown 1m0s, skippable` |
    /// | all or nothing | `unlimited` or `blocked` |
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.algorithm() {
            Some(algorithm) => algorithm.write(f),
            None => f.write_str(word(self)),
        }
    }
}

#[cfg(test)]
mod tests;
