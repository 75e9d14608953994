use std::time::Duration;

use super::*;
use crate::quota::Per;

#[test]
fn reads_limits() {
    let secs = Duration::from_secs;
    for (text, limit) in [
        ("10/s", Limit::per_second(10)),
        ("10/s burst 20", Limit::per_second(10).burst(20)),
        (" 10 / s  burst  20 ", Limit::per_second(10).burst(20)),
        ("10 per second", Limit::per_second(10)),
        ("100/min", Limit::per_minute(100)),
        ("100/m burst 1", Limit::per_minute(100).burst(1)),
        ("7 per hour burst 9", Limit::per_hour(7).burst(9)),
        ("1000 per day", Limit::per_day(1000)),
        ("1000/d", Limit::per_day(1000)),
        ("5 per 15m", Limit::per(5, secs(15 * 60))),
        ("5/1h30m burst 2", Limit::per(5, secs(90 * 60)).burst(2)),
        ("1 per 100ms", Limit::every(Duration::from_millis(100))),
        ("5 in any 15m", Limit::window(5, secs(15 * 60))),
        ("5 in any hour", Limit::window(5, secs(60 * 60))),
        (
            "4 at once, waiting up to 2s",
            Limit::concurrent(4).max_wait(secs(2)),
        ),
        ("9 per  calendar  day", Limit::quota(9, Per::Day)),
        ("9/calendar month", Limit::quota(9, Per::Month)),
        (
            "9 per 24h from first use",
            Limit::quota(9, Per::first_use(secs(24 * 60 * 60))),
        ),
        ("unlimited", Limit::UNLIMITED),
        ("blocked", Limit::BLOCKED),
    ] {
        assert_eq!(text.parse(), Ok(limit), "{text}");
    }
}

const FORM: &str = "write it as `10/s burst 20`, `5 per 15m`, `5 in any 15m`, `1000 per calendar day` or `4 at once`";

/// Texts, and a part of their errors.
const REFUSED: &[(&str, &str)] = &[
    ("", FORM),
    ("10", FORM),
    ("10/", FORM),
    ("/s", FORM),
    ("ten per day", FORM),
    ("10 s", FORM),
    ("10 pers", FORM),
    ("5 in 15m", "write `5 in any 15m`"),
    ("5 in hour", "write `5 in any hour`"),
    ("5 in stock", FORM),
    ("5 in 15m burst 2", FORM),
    ("5 in any", FORM),
    (
        "5 in any 15m burst 2",
        "window: `15m burst 2` is not a duration",
    ),
    ("5000 in any 15m", "4096"),
    ("-1/s", FORM),
    ("1.5/s", FORM),
    ("10/s 20", FORM),
    ("10/s burst", FORM),
    ("10/s burst20", FORM),
    ("10/s burst 20 at once", FORM),
    ("10 per 1s, 20", FORM),
    ("10/s, burst 20", FORM),
    ("UNLIMITED", "write `unlimited`"),
    ("Blocked", "write `blocked`"),
    ("4294967296/s", "up to 4294967295"),
    ("1/s burst 4294967296", "up to 4294967295"),
    ("10/fortnight", "period: `fortnight` is not a duration"),
    ("10 per 15", "period: `15` is not a duration: add a unit"),
    (
        "10 per 1s, 20 at once, waiting up to 2",
        "wait: `2` is not a duration",
    ),
    ("10 per 1s, waiting up to", FORM),
    ("4 at once, waiting up to 2", "wait: `2` is not a duration"),
    (
        "4 at once, waiting up to 2s, held for 1s",
        "wait: `2s, held for 1s`",
    ),
    (
        "4 at once, waiting up to 1500ns",
        "max_wait is not a whole number of microseconds",
    ),
    ("10 per month", "write `10 per calendar month`"),
    ("10/week", "write `10 per calendar week`"),
    (
        "10 per calendar fortnight",
        "`hour`, `day`, `week` and `month`",
    ),
    (
        "10 per calendar day at +2",
        "write an offset from UTC as `+02:00`",
    ),
    ("10 per 24 from first use", "period: `24` is not a duration"),
    ("10 per 0s from first use", "per is 0"),
    ("0 per calendar day", "quota is 0"),
    ("5 per 1s for", FORM),
    ("5 per 1s for 1", "active: `1` is not a duration"),
    ("5 per 1 for 1s", "window: `1` is not a duration"),
    (
        "5 per 1s for 1s, cooldown 2",
        "cooldown: `2` is not a duration",
    ),
    ("5 per 1s for 1s, skipped", FORM),
    ("0 per 1s for 1s", "tier 0: limit is 0"),
    ("10 per 2d", "`48h`"),
    ("0/s", "count is 0"),
    ("1/s burst 0", "burst is 0"),
    ("1 per 0s", "period is 0"),
];

#[test]
fn refuses_with_what_to_write() {
    for (text, reason) in REFUSED {
        let error = text.parse::<Limit>().unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
        assert!(error.starts_with(&format!("`{text}` is not a limit: ")));
    }
}
