//! Tiers in files: every form and every mistake.

use std::time::Duration;

use tollgate::{
    Limit, Limits,
    limit::Language::{Json, Toml, Yaml},
    tiers::Tier,
};

use crate::{Refusal, defaults, limit_of, overrides, reads, refused, support::Log};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn languages_say_the_same() {
    let texts = [
        (
            Yaml,
            "a:\n  number: 6\n  tiers:\n  - {limit: 5, window: 1s}\n  - limit: 50\n    window: 5s\n    active: 5s\n    \
             cooldown: 15s\n    skippable: true\n  - {limit: 1, window: infinite, active: infinite, skippable: false}\n",
        ),
        (
            Json,
            r#"{"a": {"number": 6, "tiers": [{"limit": 5, "window": "1s"},
            {"limit": 50, "window": "5s", "active": "5s", "cooldown": "15s", "skippable": true},
            {"limit": "1", "window": "infinite", "active": "infinite", "cooldown": "0s"}]}}"#,
        ),
        (
            Toml,
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
    for (language, text) in texts.into_iter().filter(|(language, _)| reads(*language)) {
        let limits = defaults(language, text).unwrap();
        assert_eq!(limits.get("a").unwrap().limit, expected, "{text}");
        assert_eq!(limits.get("a").unwrap().name.number(), Some(6));
    }
}

#[test]
fn lowest_may_end_and_rest() {
    let text =
        r#"{"a": {"tiers": [{"limit": 50, "window": "15s", "active": "15s", "cooldown": "30s"}]}}"#;
    let limits = defaults(Json, text).unwrap();
    let tier = Tier::new(50, secs(15)).active(secs(15)).cooldown(secs(30));
    let expected = Limit::tiers([tier]).unwrap();
    assert_eq!(limits.get("a").unwrap().limit, Some(expected));
}

#[test]
fn override_may_have_tiers() {
    let text = r#"[{"any": {"tiers": [{"limit": 5, "window": "1s"}], "ids": ["x", "y"]}},
        {"any:z": {"tiers": [{"limit": 6, "window": "1s"}]}}]"#;
    let limits = overrides(Json, text).unwrap();
    for (id, limit) in [("x", 5), ("y", 5), ("z", 6)] {
        let expected = Limit::tiers([Tier::new(limit, secs(1))]).unwrap();
        assert_eq!(limit_of(&limits, "any", id), Some(&expected), "{id}");
    }
}

const MISTAKES: &[Refusal] = &[
    (
        Yaml,
        "a:\n  tiers: 5",
        "2: limit `a`: expected a list of `{limit, window, active, cooldown}`, the lowest tier first, found `5`",
    ),
    (
        Json,
        "{\"a\": {\n\"tiers\": null}}",
        "2: limit `a`: expected a list of `{limit, window, active, cooldown}`, the lowest tier first, found `null`",
    ),
    (
        Yaml,
        "a:\n  tiers:\n  - 5",
        "3: limit `a`: expected a map, found `5`",
    ),
    (
        Yaml,
        "a:\n  tiers:\n  - {limit: 5}",
        "3: limit `a`: window is missing",
    ),
    (
        Json,
        "{\"a\": {\"tiers\": [{\"limit\": 5, \"window\": \"1s\"},\n{\"limit\": 5, \"window\": \"1s\"}]}}",
        "2: limit `a`: active is missing",
    ),
    (
        Json,
        "{\"a\": {\"tiers\": [\n{\"limit\": 5,\n\"window\": \"1s\",\n\"limit\": 6}]}}",
        "4: limit `a`: limit appears twice, first in line 2",
    ),
    (
        Json,
        "{\"a\": {\"tiers\": [\n{\"burst\": 5, \"window\": \"1s\"}]}}",
        "2: limit `a`: unknown field `burst`: a tier has a limit",
    ),
    (
        Json,
        "{\"a\": {\"tiers\": [\n{\"limit\": 5, \"period\": \"1s\"}]}}",
        "2: limit `a`: unknown field `period`: a tier has a window",
    ),
    (
        Json,
        "{\"a\": {\"tiers\": [\n{\"limit\": 5,\n\"window\": \"1\"}]}}",
        "3: limit `a`: window: `1` is not a duration",
    ),
    (
        Json,
        "{\"a\": {\"tiers\": [\n{\"limit\": 5, \"window\": \"1s\",\n\"skippable\": \"yes\"}]}}",
        "3: limit `a`: skippable is `yes`: write true or false",
    ),
    (
        Json,
        "{\"a\": {\"tiers\": [\n{\"limit\":\n0, \"window\": \"1s\"}]}}",
        "3: limit `a`: tier 0: limit is 0, so no request could ever enter the tier: use at least 1, for the request that enters the tier",
    ),
    (
        Json,
        "{\"a\": {\"tiers\": [\n{\"limit\": 1,\n\"window\": \"0s\"}]}}",
        "3: limit `a`: tier 0: window is 0: use a duration such as `1s`, or `infinite`",
    ),
    (
        Json,
        "{\"a\": {\"tiers\": [{\"limit\": 1, \"window\": \"1s\"},\n{\"limit\": 1, \"window\": \"1s\",\n\"active\": \"0s\"}]}}",
        "3: limit `a`: tier 1: active is 0",
    ),
    (
        Json,
        "{\"a\": {\"tiers\": [\n{\"limit\": 1,\n\"window\": \"1500ns\"}]}}",
        "3: limit `a`: tier 0: window is not a whole number of microseconds",
    ),
    (
        Json,
        "{\"a\": {\"tiers\": [\n{\"limit\": 1, \"window\": \"1s\",\n\"cooldown\": \"1000000h\"}]}}",
        "3: limit `a`: tier 0: cooldown is more than 71 years (2^51 µs): lower it, or make it `infinite`",
    ),
    (
        Json,
        "{\"a\": {\"tiers\": [\n{\"window\": \"1s\",\n\"limit\": 4097}]}}",
        "3: limit `a`: tier 0: limit 4097 is above 4096 in a window that slides, where each unit has to be remembered: lower it, make the window at least as long as active (and, in the lowest tier, cooldown at least as long as the window), or use burst, count and period",
    ),
    (
        Json,
        "{\"a\": {\"tiers\": [{\"limit\": 5, \"window\": \"1s\"}],\n\"burst\": 5}}",
        "2: limit `a`: it mixes tiers with burst, count and period, which are different kinds of limit: keep one of them",
    ),
];

#[test]
fn mistakes_are_told_with_their_lines() {
    refused(defaults, MISTAKES);
}

#[test]
fn more_than_sixteen_are_too_many() {
    let of = |count: usize| {
        let tier = r#"{"limit": 1, "window": "1s", "active": "1s", "cooldown": "1s"}"#;
        let tiers = vec![tier; count].join(",\n");
        defaults(Json, &format!("{{\"a\":\n{{\"tiers\":\n[{tiers}]}}}}"))
    };
    assert!(of(16).is_ok());
    let error = of(17).unwrap_err().to_string();
    assert_eq!(
        error,
        "limits:3: limit `a`: 17 tiers are more than 16: remove some"
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
