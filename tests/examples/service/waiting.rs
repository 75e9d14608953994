//! Limits with a line: delays, and transactions that do not wait.

use serde_json::{Value, json};

use super::process::{Service, T0};

const DEFAULTS: &str = "
Line: {burst: 2, count: 1, period: 1s, max_wait: 2s}
Long: {burst: 1, count: 1, period: 1s, max_wait: 1m}
Orders: {burst: 20, count: 20, period: 1s}
Prison: {tiers: [{limit: 5, window: 1s}]}
";

fn one(limit: &str) -> Value {
    json!({"limit": limit, "id": "a"})
}

/// The fields that tell of one decision on a limit with a line.
fn figures(answer: &Value) -> Value {
    let fields = [
        "allowed",
        "delay_us",
        "remaining",
        "retry_after_us",
        "next_after_us",
        "reset_after_us",
    ];
    fields.iter().map(|field| answer[field].clone()).collect()
}

#[test]
fn answers_on_limits_with_a_line_carry_the_delay() {
    let service = Service::start_on(DEFAULTS, &["--manual-clock"]);
    let line = json!([one("Line")]);
    let expected = [
        json!([true, 0, 1, 0, 0, 1_000_000]),
        json!([true, 0, 0, 0, 0, 2_000_000]),
        json!([true, 1_000_000, 0, 0, 0, 3_000_000]),
        json!([true, 2_000_000, 0, 0, 1_000_000, 4_000_000]),
        json!([false, 0, 0, 1_000_000, 1_000_000, 4_000_000]),
    ];
    for expected in expected {
        for op in ["check", "spend"] {
            let answer = service.decide(op, T0, &line);
            assert_eq!(figures(&answer), expected, "{op}");
            assert_eq!(figures(&answer["transactions"][0]), expected, "{op}");
        }
    }
    let no_wait = json!([{"limit": "Line", "id": "a", "no_wait": true}]);
    let denied = service.decide("spend", T0 + 1_000_000, &no_wait);
    let expected = json!([false, 0, 0, 2_000_000, 2_000_000, 3_000_000]);
    assert_eq!(figures(&denied), expected);
    let refunded = service.decide("refund", T0 + 1_000_000, &line);
    assert_eq!(refunded["refunded"], false, "somebody waits");
    assert_eq!(refunded["delay_us"], 0);
}
