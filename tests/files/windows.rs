//! Windows and quotas in files: every form and every mistake.

use std::time::Duration;

use tollgate::{
    Limit,
    limit::Language::{Json, Toml, Yaml},
    quota::{Per, UtcOffset},
};

use crate::{Refusal, defaults, limit_of, overrides, reads, refused};

const QUARTER: Duration = Duration::from_secs(15 * 60);

fn all() -> [(&'static str, Limit); 6] {
    let ahead = UtcOffset::hours(2);
    let behind = UtcOffset::minutes(-210);
    [
        ("logins", Limit::window(5, QUARTER)),
        ("hourly", Limit::quota(7, Per::Hour.at_offset(behind))),
        ("daily", Limit::quota(1000, Per::Day.at_offset(ahead))),
        ("weekly", Limit::quota(u32::MAX, Per::Week)),
        ("monthly", Limit::quota(1, Per::Month)),
        ("trial", Limit::quota(9, Per::first_use(QUARTER))),
    ]
}

#[test]
fn languages_say_the_same() {
    let texts = [
        (
            Yaml,
            "logins: {limit: 5, window: 15m}\nhourly: {quota: 7, per: hour, utc_offset: \"-03:30\"}\n\
             daily:\n  quota: 1000\n  per: day\n  utc_offset: +02:00\n\
             weekly: {quota: 4294967295, per: week, utc_offset: +00:00}\nmonthly: {per: month, quota: 1}\n\
             trial: {quota: 9, per: 0.25h}\n",
        ),
        (
            Json,
            r#"{"logins": {"window": "900s", "limit": "5"}, "hourly": {"quota": 7, "per": "hour", "utc_offset": "-03:30"},
            "daily": {"quota": 1000, "per": "day", "utc_offset": "+02:00"}, "weekly": {"quota": 4294967295, "per": "week"},
            "monthly": {"quota": 1, "per": "month"}, "trial": {"quota": 9, "per": "15m"}}"#,
        ),
        (
            Toml,
            "logins = {limit = 5, window = '15m'}\nhourly = {quota = 7, per = 'hour', utc_offset = '-03:30'}\n\
             daily = {quota = 1000, per = 'day', utc_offset = '+02:00'}\nweekly = {quota = 4294967295, per = 'week'}\n\
             monthly = {quota = 1, per = 'month'}\ntrial = {quota = 9, per = '900000ms'}\n",
        ),
    ];
    for (language, text) in texts.into_iter().filter(|(language, _)| reads(*language)) {
        let limits = defaults(language, text).unwrap();
        for (name, limit) in all() {
            let found = &limits.get(name).unwrap().limit;
            assert_eq!(found.as_ref(), Some(&limit), "{name} in {text}");
        }
    }
}

#[test]
fn override_may_have_another_algorithm_than_the_default() {
    let text = r#"[{"any": {"limit": 5, "window": "15m", "ids": ["x"]}},
        {"any": {"quota": 9, "per": "month", "ids": ["y"]}},
        {"any:z": {"quota": 8, "per": "day", "utc_offset": "+01:00"}}]"#;
    let limits = overrides(Json, text).unwrap();
    let ahead = UtcOffset::hours(1);
    for (id, expected) in [
        ("x", Limit::window(5, QUARTER)),
        ("y", Limit::quota(9, Per::Month)),
        ("z", Limit::quota(8, Per::Day.at_offset(ahead))),
    ] {
        assert_eq!(limit_of(&limits, "any", id), Some(&expected), "{id}");
    }
}

const WHOLE: &str = "write its values, such as `10/s burst 20`, or `{}` to turn it off";

#[test]
fn what_is_missing_is_named() {
    for (text, field) in [
        (r#"{"a": {"limit": 5}}"#, "window"),
        (r#"{"a": {"window": "1s"}}"#, "limit"),
        (r#"{"a": {"quota": 5}}"#, "per"),
        (r#"{"a": {"per": "day"}}"#, "quota"),
        (r#"{"a": {"utc_offset": "+02:00"}}"#, "quota"),
    ] {
        let error = defaults(Json, text).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("limits:1: limit `a`: {field} is missing: {WHOLE}")
        );
    }
}

const MISTAKES: &[Refusal] = &[
    (
        Json,
        "{\"a\": {\"limit\": 0,\n\"window\": \"1s\"}}",
        "1: limit `a`: limit is 0, so nothing would ever pass",
    ),
    (
        Json,
        "{\"a\": {\"window\": \"1s\",\n\"limit\": 4097}}",
        "2: limit `a`: limit 4097 is above 4096 in a window, where each unit has to be remembered: lower it, or use a quota, or burst, count and period",
    ),
    (
        Json,
        "{\"a\": {\"limit\": 5,\n\"window\": \"0s\"}}",
        "2: limit `a`: window is 0: use the time in which at most `limit` pass, as `1s` or `15m`",
    ),
    (
        Json,
        "{\"a\": {\"limit\": 5,\n\"window\": \"1500ns\"}}",
        "2: limit `a`: window is not a whole number of microseconds",
    ),
    (
        Json,
        "{\"a\": {\"limit\": 5,\n\"window\": \"1000000h\"}}",
        "2: limit `a`: window is more than 71 years (2^51 us)",
    ),
    (
        Json,
        "{\"a\": {\"qouta\": 5, \"per\": \"day\"}}",
        "1: limit `a`: unknown field `qouta`: did you mean `quota`?",
    ),
    (
        Yaml,
        "a:\n  quota: 5\n  per: days",
        "3: limit `a`: per is `days`: did you mean `day`?",
    ),
    (
        Json,
        "{\"a\": {\"quota\": 5, \"per\": \"fortnight\"}}",
        "1: limit `a`: per is `fortnight`: write `hour`, `day`, `week` or `month`, or a duration such as `24h`, which starts with the first request",
    ),
    (
        Json,
        "{\"a\": {\"quota\": 5,\n\"per\": \"0s\"}}",
        "2: limit `a`: per is 0: use the length of the period, as `24h`, or `hour`, `day`, `week` or `month`",
    ),
    (
        Json,
        "{\"a\": {\"quota\": 0,\n\"per\": \"day\"}}",
        "1: limit `a`: quota is 0, so nothing would ever pass",
    ),
    (
        Json,
        "{\"a\": {\"quota\": 5, \"per\": \"day\",\n\"utc_offset\": \"+24:00\"}}",
        "2: limit `a`: utc_offset is `+24:00`: write an offset from UTC as `+02:00` or `-03:30`, from `-23:59` to `+23:59`",
    ),
    (
        Json,
        "{\"a\": {\"quota\": 5, \"per\": \"24h\",\n\"utc_offset\": \"+02:00\"}}",
        "2: limit `a`: utc_offset is for quotas per hour, day, week or month; a period of this length starts with the first request: remove it",
    ),
    (
        Json,
        "{\"a\": {\"limit\": 5, \"window\": \"1s\",\n\"burst\": 5}}",
        "1: limit `a`: it mixes burst, count and period with limit and window, which are different kinds of limit",
    ),
    (
        Json,
        "{\"a\": {\"limit\": 5, \"window\": \"1s\",\n\"per\": \"day\"}}",
        "2: limit `a`: it mixes limit and window with quota and per, which are different kinds of limit",
    ),
    (
        Toml,
        "[a]\nquota = 5\nblocked = true\nunlimited = true\ntiers = []\nperiod = '1s'\nwindow = '1s'",
        "3: limit `a`: it mixes unlimited with blocked and with tiers and with burst, count and period and with limit and window and with quota and per, which are different kinds of limit",
    ),
];

#[test]
fn mistakes_are_told_with_their_lines() {
    refused(defaults, MISTAKES);
}

#[test]
fn limits_are_shown_in_words() {
    let shown = all().map(|(_, limit)| limit.to_string());
    assert_eq!(
        shown,
        [
            "5 in any 15m0s",
            "7 per calendar hour at -03:30",
            "1000 per calendar day at +02:00",
            "4294967295 per calendar week",
            "1 per calendar month",
            "9 per 15m0s from first use",
        ]
    );
}
