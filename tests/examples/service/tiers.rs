//! Limits with tiers: their figures, groups, mistakes, overrides and how they are shown.

use serde_json::{Value, json};

use super::process::{Service, T0, fields, without_receipts};

const TIERS: &str = "
Prison:
  tiers:
  - {limit: 5, window: 1s, active: 1s}
  - {limit: 1, window: 15s, active: 15s}
Penalty:
  number: 4
  tiers:
  - {limit: 5, window: 1s, active: 1s}
  - {limit: 50, window: 5s, active: 5s, cooldown: 15s}
Life:
  tiers:
  - {limit: 2, window: infinite}
Orders: {burst: 20, count: 20, period: 1s}
";

fn start() -> Service {
    Service::start_on(TIERS, &["--manual-clock"])
}

fn one(limit: &str) -> Value {
    json!([{"limit": limit, "id": "a"}])
}

fn group(limit: &str, least: u32, most: u32) -> Value {
    json!([{"limit": limit, "id": "a", "cost": most, "min_cost": least}])
}

/// The fields of one decision.
fn figures(answer: &Value) -> Value {
    fields(
        answer,
        &[
            "allowed",
            "granted",
            "tier",
            "split",
            "remaining",
            "retry_after_us",
            "next_after_us",
            "reset_after_us",
        ],
    )
}

#[test]
fn answers_have_every_figure_of_tiers() {
    let service = start();
    let answer = service.decide("spend", T0, &group("Penalty", 2, 7));
    let mut member = json!({
        "allowed": true, "limited": true, "limit": "Penalty", "id": "a",
        "granted": 7, "tier": 1, "split": {"0": 5, "1": 2},
        "remaining": 48, "retry_after_us": 0, "next_after_us": 0, "reset_after_us": 20_000_001,
    });
    let mut expected = member.clone();
    expected["transactions"] = json!([member.take()]);
    assert_eq!(without_receipts(answer), expected);
    let rest = service.decide("spend", T0, &group("Penalty", 1, 100));
    let filled = json!([true, 48, 1, {"1": 48}, 0, 0, 5_000_001, 20_000_001]);
    assert_eq!(figures(&rest), filled);
    let denied = service.decide("spend", T0 + 5_000_000, &one("Penalty"));
    let nothing = json!([false, 0, null, {}, 0, 1, 1, 15_000_001]);
    assert_eq!(figures(&denied), nothing);
    let lowest = service.decide("spend", T0 + 5_000_001, &one("Penalty"));
    let one = json!([true, 1, 0, {"0": 1}, 4, 0, 0, 15_000_000]);
    assert_eq!(figures(&lowest), one);
    let gcra = service.decide("spend", T0, &json!([{"limit": "Orders", "id": "a"}]));
    for field in ["granted", "tier", "split"] {
        assert_eq!(gcra.get(field), None, "{field} is for tiers");
    }
}
