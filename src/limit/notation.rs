//! Reads and writes limits: in one line, such as `10/s burst 20`, and with serde as the fields of a file.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::{limit::Limit, reading};
use crate::{
    algorithm::{Algorithm, LimitError, WrittenFields},
    id::shortened,
};

/// The words for limits without an algorithm. In files, they can also be fields.
pub(super) const WORDS: [(&str, Limit); 2] =
    [("unlimited", Limit::UNLIMITED), ("blocked", Limit::BLOCKED)];

/// Returns the word for a limit without an algorithm.
fn word(limit: &Limit) -> &'static str {
    WORDS[usize::from(limit.is_blocked())].0
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
    /// | `1000 per calendar day in America/Los_Angeles` | the same in a time zone (feature `zones`) |
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
        let mut words = WORDS.into_iter();
        let read = match words.find(|(word, _)| word.eq_ignore_ascii_case(line)) {
            Some((word, limit)) if word == line => return Ok(limit),
            Some((word, _)) => Err(LimitError::text(format!("write `{word}`"))),
            None => Algorithm::parse(line).map(Self::of),
        };
        read.map_err(|mistake| mistake.in_line(&shortened(text)))
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
    /// | quota | `1000 per calendar day`, `1000 per calendar day at +02:00`, `1000 per calendar day in America/Los_Angeles` or `1000 per 24h0m0s from first use` |
    /// | concurrency | `4 at once`, or `4 at once, held for 1m0s` |
    /// | tiers | `5 per 1s for infinite, then 1 per 15s for 15s, cooldown 1m0s, skippable` |
    /// | all or nothing | `unlimited` or `blocked` |
    ///
    /// In the alternate form (`{:#}`), durations are written for people: `10 per second, 20 at once`, `5 in any 15 minutes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.algorithm() {
            Some(algorithm) => algorithm.parameters().fmt(f),
            None => f.write_str(word(self)),
        }
    }
}

/// Writes the values of the limit in the form of a file.
///
/// ```
/// use tollgate::{Limit, quota::Per};
///
/// let json = serde_json::to_string(&Limit::quota(1000, Per::Day))?;
/// assert_eq!(json, r#"{"quota":1000,"per":"day"}"#);
/// # Ok::<_, serde_json::Error>(())
/// ```
impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = match self.algorithm() {
            Some(algorithm) => algorithm.parameters().values(),
            None => WrittenFields::default().flag(word(self), true),
        };
        values.serialize(serializer)
    }
}

/// Reads the value of a name in a file of limits, or the one line that [`FromStr`](std::str::FromStr) reads.
///
/// ```
/// use serde::Deserialize;
/// use tollgate::Limit;
///
/// #[derive(Deserialize)]
/// struct Config {
///     api: Limit,
///     uploads: Limit,
/// }
///
/// let config: Config = serde_json::from_str(
///     r#"{"api": "10/s burst 20", "uploads": {"burst": 5, "count": 5, "period": "15m"}}"#,
/// )?;
/// assert_eq!(config.api, Limit::per_second(10).burst(20));
/// assert_eq!(config.uploads.to_string(), "5 per 15m0s, 5 at once");
/// # Ok::<_, serde_json::Error>(())
/// ```
///
/// The format must be self-describing, as JSON, YAML and TOML are.
impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = serde_json::Value::deserialize(deserializer)?.to_string();
        reading::limit(&json).map_err(|error| D::Error::custom(error.replace('\n', "; ")))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        quota::{Per, UtcOffset},
        tiers::Tier,
    };

    #[test]
    fn limits_are_read_from_one_line() {
        let secs = Duration::from_secs;
        let day = secs(24 * 60 * 60);
        for (text, limit) in [
            ("10/s", Limit::per_second(10)),
            (" 10 / s  burst  20 ", Limit::per_second(10).burst(20)),
            ("10 per second", Limit::per_second(10)),
            ("100/min", Limit::per_minute(100)),
            ("100/m burst 1", Limit::per_minute(100).burst(1)),
            ("7 per hour burst 9", Limit::per_hour(7).burst(9)),
            ("1000/d", Limit::per_day(1000)),
            ("5/1h30m burst 2", Limit::per(5, secs(90 * 60)).burst(2)),
            ("1 per 100ms", Limit::every(Duration::from_millis(100))),
            ("5 in any 15m", Limit::window(5, secs(15 * 60))),
            ("5 in any hour", Limit::window(5, secs(60 * 60))),
            (
                "10/s, 20 at once, waiting up to sec",
                Limit::per_second(10).burst(20).max_wait(secs(1)),
            ),
            (
                "10 per 1s, 20 at once, waiting up to 0s",
                Limit::per_second(10).burst(20),
            ),
            ("4 at once", Limit::concurrent(4)),
            ("4 at once, held for 1s", Limit::concurrent(4).hold(secs(1))),
            (
                "4 at once, held for min",
                Limit::concurrent(4).hold(secs(60)),
            ),
            ("9 per  calendar  day", Limit::quota(9, Per::Day)),
            (
                "9 per calendar week at -00:30",
                Limit::quota(9, Per::Week.at_offset(UtcOffset::minutes(-30))),
            ),
            ("9/calendar hour at +00:00", Limit::quota(9, Per::Hour)),
            ("9/calendar month", Limit::quota(9, Per::Month)),
            (
                "9 per 24h from first use",
                Limit::quota(9, Per::first_use(day)),
            ),
            ("unlimited", Limit::UNLIMITED),
            ("blocked", Limit::BLOCKED),
        ] {
            assert_eq!(text.parse(), Ok(limit), "{text}");
        }
    }

    #[test]
    fn every_form_is_written_and_read_again() {
        let secs = Duration::from_secs;
        let rate = Limit::per_second(10).burst(20);
        let local_day = Per::Day.at_offset(UtcOffset::hours(2));
        let lowest = Tier::new(5, secs(1));
        let cooling = Tier::new(1, secs(15)).active(secs(15)).cooldown(secs(60));
        let last = Tier::new(1, Tier::FOREVER).cooldown(Tier::FOREVER);
        for (limit, line) in [
            (rate.clone(), "10 per 1s, 20 at once"),
            (
                rate.max_wait(secs(2)),
                "10 per 1s, 20 at once, waiting up to 2s",
            ),
            (Limit::window(5, secs(15 * 60)), "5 in any 15m0s"),
            (Limit::quota(9, Per::Hour), "9 per calendar hour"),
            (Limit::quota(9, local_day), "9 per calendar day at +02:00"),
            (
                Limit::quota(9, Per::first_use(secs(24 * 60 * 60))),
                "9 per 24h0m0s from first use",
            ),
            (Limit::concurrent(4), "4 at once"),
            (
                Limit::concurrent(4).hold(secs(60)),
                "4 at once, held for 1m0s",
            ),
            (Limit::tiers([lowest]).unwrap(), "5 per 1s for infinite"),
            (
                Limit::tiers([lowest, cooling]).unwrap(),
                "5 per 1s for infinite, then 1 per 15s for 15s, cooldown 1m0s",
            ),
            (
                Limit::tiers([
                    lowest,
                    cooling.skippable(),
                    cooling.cooldown(secs(0)).skippable(),
                    last,
                ])
                .unwrap(),
                "5 per 1s for infinite, then 1 per 15s for 15s, cooldown 1m0s, skippable, \
                 then 1 per 15s for 15s, skippable, then 1 per infinite for infinite, cooldown infinite",
            ),
            (Limit::UNLIMITED, "unlimited"),
            (Limit::BLOCKED, "blocked"),
        ] {
            assert_eq!(limit.to_string(), line);
            assert_eq!(format!("{limit:>80}"), line);
            assert_eq!(line.parse(), Ok(limit), "{line}");
        }
    }

    const FORM: &str = "write it as `10/s burst 20`, `5 per 15m`, `5 in any 15m`, `1000 per calendar day` or `4 at once`";

    /// Texts, and a part of their errors.
    const REFUSED: &[(&str, &str)] = &[
        ("", FORM),
        ("10", FORM),
        ("/s", FORM),
        ("ten per day", FORM),
        ("10 pers", FORM),
        ("5 in 15m", FORM),
        ("5 in stock", FORM),
        ("5 in any", FORM),
        ("5 in any 15m burst 2", FORM),
        ("5000 in any 15m", "4096"),
        ("-1/s", FORM),
        ("1.5/s", FORM),
        ("10/s 20", FORM),
        ("10/s burst20", FORM),
        ("10/s burst 20 at once", FORM),
        ("10 per 1s, 20", FORM),
        ("10 per , 20 at once", FORM),
        ("10 per 1s , 20 at once", FORM),
        ("10 per 1s, 20 at once,", FORM),
        ("x per 1s, 20 at once", FORM),
        ("10 per 1s, x at once", "burst is `x`: use a whole number"),
        ("10 per 1s burst x", "burst is `x`: use a whole number"),
        ("10 per 1s burst 5, waiting up to 2s", FORM),
        ("10 per 1s, waiting up to 2s", FORM),
        (
            "10 per x, 20 at once, waiting up to 2 s",
            "period: `x` is not a duration",
        ),
        (
            "10 per 1s, 20 at once, waiting up to 2 s",
            "max_wait: `2 s` is not a duration",
        ),
        (
            "10 per 1s, 20 at once, waiting up to 1s, waiting up to 2s",
            FORM,
        ),
        ("UNLIMITED", "write `unlimited`"),
        ("4294967296/s", "up to 4294967295"),
        ("10/fortnight", "period: `fortnight` is not a duration"),
        ("10 per 15", "period: `15` is not a duration: add a unit"),
        (
            "10 per 1s, 20 at once, waiting up to 2",
            "max_wait: `2` is not a duration",
        ),
        ("4 at once, waiting up to 2s", FORM),
        ("4 at once, held for 1", "hold: `1` is not a duration"),
        ("4 at once, held for 1s, held for 1s", FORM),
        ("4 at once, held for 0s", "permits are held for 1 s to 24 h"),
        ("x at once, held for 0s", FORM),
        ("4 at  once at once", FORM),
        ("10 per month", "write `per calendar month`"),
        ("10 in any week", "write `per calendar week`"),
        ("10/calendar", "period: `calendar` is not a duration"),
        ("10 per calendar at +02:00", FORM),
        ("10 per calendar day at", FORM),
        ("10 per calendar day from first use", FORM),
        ("10 per calendar dya", "per is `dya`: did you mean `day`?"),
        ("10 per calendar 0s", "per is 0"),
        ("0 per calendar 24h", "quota is 0"),
        (
            "10 per calendar 24h at +02:00",
            "utc_offset is for quotas per hour, day, week or month",
        ),
        (
            "10 per calendar fortnight",
            "per is `fortnight`: write `hour`, `day`, `week` or `month`",
        ),
        ("10 per calendar 24h", FORM),
        ("10 per day from first use", FORM),
        (
            "10 per at from first use",
            "per is `at`: write `hour`, `day`, `week` or `month`",
        ),
        ("10 per 24h from first use at +02:00", FORM),
        (
            "10 per calendar day at +2",
            "write an offset from UTC as `+02:00`",
        ),
        ("10 per 0s from first use", "per is 0"),
        ("5 per 1s for 1", "active: `1` is not a duration"),
        ("5 per 1s for 1s, skipped", FORM),
        ("5 per 1s for , skippable", FORM),
        ("5 per 1s for 1s, skippable, cooldown 1s", FORM),
        (
            "5 per 1s for 1s, cooldown , skippable",
            "cooldown: `` is not a duration",
        ),
        (
            "5 per 1s for 1s, cooldown 1 s",
            "cooldown: `1 s` is not a duration",
        ),
        ("5 per 1 for 1s, then x per 1s for 1s", FORM),
        ("5 per 1 for 1s, then 5 in any 1s", FORM),
        (
            "5 per 1s for 1s, then 5 per 1s for x, cooldown y",
            "active: `x` is not a duration",
        ),
        ("5 per sec for 1s", "window: `sec` is not a duration"),
        ("0 per 1s for 1s", "tier 0: limit is 0"),
        ("10 per 2d", "write a day as `24h`"),
        ("1/s burst 0", "burst is 0"),
    ];

    #[test]
    fn malformed_lines_are_refused_with_a_remedy() {
        for (text, reason) in REFUSED {
            let error = text.parse::<Limit>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(error.starts_with(&format!("`{text}` is not a limit: ")));
        }
    }

    #[cfg(feature = "zones")]
    #[test]
    fn time_zones_are_read_as_they_are_written() {
        let limit = Limit::quota(9, Per::Week.in_zone("America/Argentina/Buenos_Aires"));
        let line = "9 per calendar week in America/Argentina/Buenos_Aires";
        assert_eq!(limit.to_string(), line);
        assert_eq!(format!("{limit:#}"), line);
        let json = r#"{"quota":9,"per":"week","time_zone":"America/Argentina/Buenos_Aires"}"#;
        assert_eq!(serde_json::to_string(&limit).unwrap(), json);
        for text in [
            line,
            " 9/calendar  week in  america/argentina/buenos_aires ",
        ] {
            assert_eq!(text.parse().as_ref(), Ok(&limit), "{text}");
        }
        assert_eq!(serde_json::from_str::<Limit>(json).unwrap(), limit);
        for (text, reason) in [
            (
                "9 per calendar day in Berlin",
                "did you mean `Europe/Berlin`?",
            ),
            ("9 per calendar day in Europe/Berlin at +02:00", FORM),
            ("9 per calendar day at +02:00 in Europe/Berlin", FORM),
            ("9 per calendar day in", FORM),
            ("9 per 24h in Europe/Berlin", FORM),
            ("9 per 24h from first use in Europe/Berlin", FORM),
            (
                "9 per calendar 24h in Europe/Berlin",
                "time_zone is for quotas per hour, day, week or month",
            ),
        ] {
            let error = text.parse::<Limit>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[cfg(not(feature = "zones"))]
    #[test]
    fn time_zones_need_their_feature() {
        let error = "9 per calendar day in Europe/Berlin".parse::<Limit>();
        let message = error.unwrap_err().to_string();
        let expected = "time_zone needs tollgate's feature `zones`: enable it in Cargo.toml";
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn fields_are_read_as_they_are_written() {
        let secs = Duration::from_secs;
        let jail = Tier::new(1, secs(15)).active(secs(15)).skippable();
        let tiers = Limit::tiers([Tier::new(5, secs(1)), jail]).unwrap();
        for (limit, json) in [
            (
                Limit::per_second(10).burst(20).max_wait(secs(2)),
                r#"{"burst":20,"count":10,"period":"1s","max_wait":"2s"}"#,
            ),
            (Limit::window(5, secs(60)), r#"{"limit":5,"window":"1m0s"}"#),
            (Limit::quota(5, Per::Week), r#"{"quota":5,"per":"week"}"#),
            (Limit::concurrent(4), r#"{"concurrent":4}"#),
            (
                tiers,
                r#"{"tiers":[{"limit":5,"window":"1s","active":"infinite","cooldown":"0s"},{"limit":1,"window":"15s","active":"15s","cooldown":"0s","skippable":true}]}"#,
            ),
            (Limit::UNLIMITED, r#"{"unlimited":true}"#),
            (Limit::BLOCKED, r#"{"blocked":true}"#),
        ] {
            assert_eq!(serde_json::to_string(&limit).unwrap(), json);
            assert_eq!(serde_json::from_str::<Limit>(json).unwrap(), limit);
            let line = format!("\"{limit}\"");
            assert_eq!(serde_json::from_str::<Limit>(&line).unwrap(), limit);
        }
        let quoted = r#"{"burst": "20", "count": 10, "period": "1s"}"#;
        assert_eq!(
            serde_json::from_str::<Limit>(quoted).unwrap(),
            Limit::per_second(10).burst(20)
        );
    }

    #[test]
    fn malformed_fields_are_refused_with_a_remedy() {
        for (json, reason) in [
            ("null", "write it as `10/s burst 20`"),
            ("7", "write it as `10/s burst 20`"),
            ("{}", "burst is missing: write its values"),
            (r#""10/fortnight""#, "`fortnight` is not a duration"),
            (r#"{"burst": 1, "ids": [1]}"#, "unknown field `ids`"),
            (
                r#"{"unlimited": true, "blocked": true}"#,
                "keep one of them",
            ),
            (
                r#"{"burst": 1.5, "count": -1, "period": "1s"}"#,
                "burst is `1.5`",
            ),
            (
                r#"{"burst": 1.5, "count": -1, "period": "1s"}"#,
                "; count is `-1`",
            ),
        ] {
            let error = serde_json::from_str::<Limit>(json).unwrap_err().to_string();
            assert!(error.contains(reason), "{json}: {error}");
            assert!(!error.starts_with(':'), "{error}");
        }
    }
}
