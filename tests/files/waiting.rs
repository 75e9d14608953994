//! Limits with a line, in files.

use std::time::Duration;

use tollgate::{
    Limit, Limits,
    limit::Language::{Json, Yaml},
};

use crate::{Refusal, defaults, limit_of, refused};

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
        .defaults_text(Json, text)
        .overrides_text(Json, own)
        .overrides_text(
            Json,
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
    let written = serde_json::to_string(&limits.as_defaults()).unwrap();
    let expected = r#"{"Orders":{"burst":20,"count":10,"period":"1s","max_wait":"2.5s"},"Off":{"burst":5,"count":5,"period":"1s"}}"#;
    assert_eq!(written, expected);
}

#[test]
fn max_wait_for_permits_is_read_and_written() {
    let text = r#"{
        "Exports": {"concurrent": 4, "max_wait": "2.5s"},
        "Streams": {"concurrent": 8, "hold": "1m", "max_wait": "2500ms"},
        "Line": "4 at once, waiting up to 2.5s",
        "Off": {"concurrent": 2, "max_wait": "0s"}
    }"#;
    let limits = defaults(Json, text).unwrap();
    let four = Limit::concurrent(4).max_wait(WAIT);
    let found = [
        ("Exports", four.clone()),
        (
            "Streams",
            Limit::concurrent(8)
                .max_wait(WAIT)
                .hold(Duration::from_secs(60)),
        ),
        ("Line", four),
        ("Off", Limit::concurrent(2)),
    ];
    for (name, limit) in found {
        assert_eq!(limit_of(&limits, name, "any"), Some(&limit), "{name}");
    }
    let written = serde_json::to_string(&limits.as_defaults()).unwrap();
    let expected = r#"{"Exports":{"concurrent":4,"max_wait":"2.5s"},"Streams":{"concurrent":8,"hold":"1m0s","max_wait":"2.5s"},"Line":{"concurrent":4,"max_wait":"2.5s"},"Off":{"concurrent":2}}"#;
    assert_eq!(written, expected);
    let again = defaults(Json, &written).unwrap();
    for name in ["Exports", "Streams", "Line", "Off"] {
        let limit = limit_of(&limits, name, "any");
        assert_eq!(limit_of(&again, name, "any"), limit, "{name}");
    }
}

const REFUSED: &[Refusal] = &[
    (
        Json,
        "{\"a\": {\"limit\": 5, \"window\": \"15m\",\n\"max_wait\": \"2s\"}}",
        "2: limit `a`: max_wait is only for burst, count and period, or concurrent, because no other kind of limit has a line to wait in",
    ),
    (
        Yaml,
        "a:\n  tiers: [{limit: 5, window: 1s}]\n  max_wait: 2s",
        "3: limit `a`: max_wait is only for burst, count and period, or concurrent, because no other kind of limit has a line to wait in",
    ),
    (
        Json,
        "{\"a\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\",\n\"max_wait\": \"1500ns\"}}",
        "2: limit `a`: max_wait is not a whole number of microseconds",
    ),
    (
        Json,
        "{\"a\": {\"concurrent\": 1,\n\"max_wait\": \"1000000h\"}}",
        "2: limit `a`: max_wait is more than 71 years (2^51 us)",
    ),
    (
        Json,
        "{\"a\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\",\n\"max_wait\": \"1000000h\"}}",
        "2: limit `a`: max_wait and the time in which an empty bucket fills are more than 71 years (2^51 us) together: lower max_wait",
    ),
    (
        Json,
        "{\"a\": {\"burst\": 1, \"count\": 1, \"period\": \"1s\",\n\"max_wate\": \"1s\"}}",
        "2: limit `a`: unknown field `max_wate`: did you mean `max_wait`?",
    ),
];

#[test]
fn mistaken_waits_are_refused_with_what_to_change() {
    refused(defaults, REFUSED);
}
