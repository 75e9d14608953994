//! Limits of all kinds in files: tiers, lines, windows and quotas.

use std::time::Duration;

use tollgate::{
    Limit, Limits,
    quota::{Per, UtcOffset},
    tiers::Tier,
};

use crate::{JSON, TOML, YAML, defaults, limit_of, overrides, reads, support::Log};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn short_cooldown_above_the_lowest_is_logged() {
    let of = |tier: Tier| {
        let (log, guard) = Log::capture();
        let limit = Limit::tiers([Tier::new(5, secs(10)).active(secs(1)), tier]).unwrap();
        Limits::builder().limit("a", limit).build().unwrap();
        drop(guard);
        (
            log.count("shorter than its window"),
            log.count("limit=\"a\" tier=1"),
        )
    };
    let burst = Tier::new(5, secs(10)).active(secs(10));
    assert_eq!(of(burst.cooldown(secs(9))), (1, 1));
    assert_eq!(of(burst.cooldown(secs(10))), (0, 0));
    // For life; once; and a prison, whose only unit leaves with it.
    assert_eq!(of(burst.active(Tier::FOREVER)), (0, 0));
    assert_eq!(of(burst.cooldown(Tier::FOREVER)), (0, 0));
    assert_eq!(of(Tier::new(1, secs(10)).active(secs(10))), (0, 0));
    assert_eq!(of(Tier::new(1, secs(10)).active(secs(9))), (1, 1));
}

const QUARTER: Duration = Duration::from_secs(15 * 60);

fn windows_and_quotas() -> [(&'static str, Limit); 6] {
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
fn windows_and_quotas_are_the_same_in_each_language() {
    let texts = [
        (
            YAML,
            "logins: {limit: 5, window: 15m}\nhourly: {quota: 7, per: hour, utc_offset: \"-03:30\"}\n\
             daily:\n  quota: 1000\n  per: day\n  utc_offset: +02:00\n\
             weekly: {quota: 4294967295, per: week, utc_offset: +00:00}\nmonthly: {per: month, quota: 1}\n\
             trial: {quota: 9, per: 0.25h}\n",
        ),
        (
            JSON,
            r#"{"logins": {"window": "900s", "limit": "5"}, "hourly": {"quota": 7, "per": "hour", "utc_offset": "-03:30"},
            "daily": {"quota": 1000, "per": "day", "utc_offset": "+02:00"}, "weekly": {"quota": 4294967295, "per": "week"},
            "monthly": {"quota": 1, "per": "month"}, "trial": {"quota": 9, "per": "15m"}}"#,
        ),
        (
            TOML,
            "logins = {limit = 5, window = '15m'}\nhourly = {quota = 7, per = 'hour', utc_offset = '-03:30'}\n\
             daily = {quota = 1000, per = 'day', utc_offset = '+02:00'}\nweekly = {quota = 4294967295, per = 'week'}\n\
             monthly = {quota = 1, per = 'month'}\ntrial = {quota = 9, per = '900000ms'}\n",
        ),
    ];
    for (language, text) in texts.into_iter().filter(|(language, _)| reads(language)) {
        let limits = defaults(language, text).unwrap();
        for (name, limit) in windows_and_quotas() {
            let found = limits.get(name).unwrap().limit();
            assert_eq!(found, Some(&limit), "{name} in {text}");
        }
    }
}

#[test]
fn override_may_have_another_algorithm_than_the_default() {
    let text = r#"[{"any": {"limit": 5, "window": "15m", "ids": ["x"]}},
        {"any": {"quota": 9, "per": "month", "ids": ["y"]}},
        {"any:z": {"quota": 8, "per": "day", "utc_offset": "+01:00"}}]"#;
    let limits = overrides(JSON, text).unwrap();
    let ahead = UtcOffset::hours(1);
    for (id, expected) in [
        ("x", Limit::window(5, QUARTER)),
        ("y", Limit::quota(9, Per::Month)),
        ("z", Limit::quota(8, Per::Day.at_offset(ahead))),
    ] {
        assert_eq!(limit_of(&limits, "any", id), Some(&expected), "{id}");
    }
}

#[cfg(feature = "zones")]
#[test]
fn time_zones_are_the_same_in_each_language() {
    let texts = [
        (
            YAML,
            "daily: {quota: 5, per: day, time_zone: America/Los_Angeles}\n",
        ),
        (YAML, "daily: 5 per calendar day in America/Los_Angeles\n"),
        (
            JSON,
            r#"{"daily": {"quota": 5, "per": "day", "time_zone": "america/los_angeles"}}"#,
        ),
        (
            TOML,
            "daily = {quota = 5, per = 'day', time_zone = 'America/Los_Angeles'}\n",
        ),
    ];
    let expected = Limit::quota(5, Per::Day.in_zone("America/Los_Angeles"));
    for (language, text) in texts.into_iter().filter(|(language, _)| reads(language)) {
        let limits = defaults(language, text).unwrap();
        assert_eq!(
            limits.get("daily").unwrap().limit(),
            Some(&expected),
            "{text}"
        );
    }
    for (fields, mistake) in [
        (
            r#""per": "day", "time_zone": "Europe/Berln""#,
            "time_zone is `Europe/Berln`: did you mean `Europe/Berlin`?",
        ),
        (
            r#""per": "24h", "time_zone": "Europe/Berlin""#,
            "time_zone is for quotas per hour, day, week or month; a period of this length starts with the first request",
        ),
        (
            r#""per": "day", "utc_offset": "+02:00", "time_zone": "Europe/Berlin""#,
            "time_zone stands beside utc_offset: remove one of them",
        ),
        (
            r#""per": "day", "timezone": "Europe/Berlin""#,
            "did you mean `time_zone`?",
        ),
    ] {
        let text = format!("{{\"daily\": {{\"quota\": 5, {fields}}}}}");
        let error = defaults(JSON, &text).unwrap_err().to_string();
        assert!(error.contains(mistake), "{error}");
    }
}
