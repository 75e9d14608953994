//! Limits with tiers: the figures that only they have.

use serde_json::json;

use super::process::{Service, T0, without_receipts};

const LIMITS: &str = "
Penalty:
  number: 4
  tiers:
  - {limit: 5, window: 1s, active: 1s}
  - {limit: 50, window: 5s, active: 5s, cooldown: 15s}
Orders: {burst: 20, count: 20, period: 1s}
";

#[test]
fn answers_have_every_figure_of_tiers() {
    let service = Service::start_on(LIMITS, &["--manual-clock"]);
    let group = json!([{"limit": "Penalty", "id": "a", "cost": 7, "min_cost": 2}]);
    let answer = service.decide("spend", T0, &group);
    let member = json!({
        "allowed": true, "limited": true, "limit": "Penalty", "id": "a",
        "granted": 7, "tier": 1, "split": {"0": 5, "1": 2},
        "remaining": 48, "retry_after_us": 0, "next_after_us": 0, "reset_after_us": 20_000_001,
    });
    let mut expected = member.clone();
    expected["transactions"] = json!([member]);
    assert_eq!(without_receipts(answer), expected);
    let rest = json!([{"limit": "Penalty", "id": "a", "cost": 48}]);
    service.decide("spend", T0, &rest);
    let denied = service.decide("spend", T0, &json!([{"limit": "Penalty", "id": "a"}]));
    let none = [&denied["granted"], &denied["tier"], &denied["split"]];
    assert_eq!(none, [&json!(0), &json!(null), &json!({})]);
    let gcra = service.decide("spend", T0, &json!([{"limit": "Orders", "id": "a"}]));
    for field in ["granted", "tier", "split"] {
        assert_eq!(gcra.get(field), None, "{field} is for tiers");
    }
}
