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
fn tiers_are_the_same_in_each_language() {
    let texts = [
        (
            YAML,
            "a:\n  number: 6\n  tiers:\n  - {limit: 5, window: 1s}\n  - limit: 50\n    window: 5s\n    active: 5s\n    \
             cooldown: 15s\n    skippable: true\n  - {limit: 1, window: infinite, active: infinite, skippable: false}\n",
        ),
        (
            JSON,
            r#"{"a": {"number": 6, "tiers": [{"limit": 5, "window": "1s"},
            {"limit": 50, "window": "5s", "active": "5s", "cooldown": "15s", "skippable": true},
            {"limit": "1", "window": "infinite", "active": "infinite", "cooldown": "0s"}]}}"#,
        ),
        (
            TOML,
            "[a]\nnumber = 6\n[[a.tiers]]\nlimit = 5\nwindow = '1s'\n[[a.tiers]]\nlimit = 50\nwindow = '5s'\n\
             active = '5s'\ncooldown = '15s'\nskippable = true\n[[a.tiers]]\nlimit = 1\nwindow = 'infinite'\n\
             active = 'infinite'\n",
        ),
    ];
    let burst = Tier::new(50, secs(5)).active(secs(5)).cooldown(secs(15));
    // The lowest is active for ever if it is not said; no cooldown is none.
    let expected = Limit::tiers([
        Tier::new(5, secs(1)),
        burst.skippable(),
        Tier::new(1, Tier::FOREVER),
    ]);
    let expected = Some(expected.unwrap());
    for (language, text) in texts.into_iter().filter(|(language, _)| reads(language)) {
        let limits = defaults(language, text).unwrap();
        assert_eq!(
            limits.get("a").unwrap().limit(),
            expected.as_ref(),
            "{text}"
        );
        assert_eq!(limits.get("a").unwrap().number(), Some(6));
    }
}

#[test]
fn more_than_sixteen_are_too_many() {
    let of = |count: usize| {
        let tier = r#"{"limit": 1, "window": "1s", "active": "1s", "cooldown": "1s"}"#;
        let tiers = vec![tier; count].join(",\n");
        defaults(JSON, &format!("{{\"a\":\n{{\"tiers\":\n[{tiers}]}}}}"))
    };
    assert!(of(16).is_ok());
    let error = of(17).unwrap_err().to_string();
    assert_eq!(
        error,
        "limits.json:3: limit `a`: 17 tiers are more than 16: remove some"
    );
}

#[test]
fn short_cooldown_above_the_lowest_is_told() {
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

const WAIT: Duration = Duration::from_millis(2500);

#[test]
fn max_wait_is_read_and_written() {
    let text = r#"{
        "Orders": {"burst": 20, "count": 10, "period": "1s", "max_wait": "2.5s"},
        "Off": {"burst": 5, "count": 5, "period": "1s", "max_wait": "0s"}
    }"#;
    let own = r#"[
        {"Orders": {"burst": 1, "count": 1, "period": "1s", "ids": ["never"]}},
        {"Off": {"burst": 1, "count": 1, "period": "1s", "max_wait": "2500ms", "ids": ["a"]}}
    ]"#;
    let limits = Limits::builder()
        .defaults_text(JSON, text)
        .overrides_text(JSON, own)
        .overrides_text(
            JSON,
            r#"{"Off:b": {"burst": 1, "count": 1, "period": "1s", "max_wait": "2.5s"}}"#,
        )
        .build()
        .unwrap();
    let orders = Limit::per_second(10).burst(20).max_wait(WAIT);
    let one = Limit::per_second(1);
    let found = [
        ("Orders", "any", orders),
        ("Orders", "never", one.clone()),
        ("Off", "any", Limit::per_second(5)),
        ("Off", "a", one.clone().max_wait(WAIT)),
        ("Off", "b", one.max_wait(WAIT)),
    ];
    for (name, id, limit) in found {
        assert_eq!(limit_of(&limits, name, id), Some(&limit), "{name} {id}");
    }
    let written = |name| serde_json::to_string(limits.get(name).unwrap().limit().unwrap()).unwrap();
    assert_eq!(
        written("Orders"),
        r#"{"burst":20,"count":10,"period":"1s","max_wait":"2.5s"}"#
    );
    assert_eq!(written("Off"), r#"{"burst":5,"count":5,"period":"1s"}"#);
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

const WHOLE: &str = "write its values, such as `10/s burst 20`, or `{}` to turn it off";

#[test]
fn what_is_missing_is_named() {
    for (text, field) in [
        (r#"{"a": {"limit": 5}}"#, "window is"),
        (r#"{"a": {"window": "1s"}}"#, "limit is"),
        (r#"{"a": {"quota": 5}}"#, "per is"),
        (r#"{"a": {"per": "day"}}"#, "quota is"),
        (r#"{"a": {"utc_offset": "+02:00"}}"#, "quota and per are"),
    ] {
        let error = defaults(JSON, text).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("limits.json:1: limit `a`: {field} missing: {WHOLE}")
        );
    }
}
