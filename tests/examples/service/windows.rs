//! Windows and quotas: costs that are refused, and receipts.

use serde_json::{Value, json};

use super::process::{Service, T0};

const LIMITS: &str = "
Logins: {number: 5, limit: 5, window: 15m}
Hourly: {quota: 3, per: hour, utc_offset: \"+00:30\"}
Monthly: {quota: 1000, per: month}
Trial: {quota: 2, per: 24h}
Orders: {number: 6, burst: 20, count: 20, period: 1s}
Tiers: {tiers: [{limit: 2, window: 1s}]}
";

fn start() -> Service {
    Service::start_on(LIMITS, &["--manual-clock"])
}

fn one(limit: &str, cost: u32) -> Value {
    json!([{"limit": limit, "id": "a", "cost": cost}])
}

/// Spends, and returns the receipt of each member.
fn receipts(service: &Service, now: u64, asked: &Value) -> Vec<Value> {
    let mut answer = service.decide("spend", now, asked);
    let members = answer["transactions"].as_array_mut().unwrap();
    members
        .iter_mut()
        .map(|member| member["receipt"].take())
        .collect()
}

#[test]
fn charged_members_have_receipts() {
    let service = start();
    let asked = json!([
        {"limit": "Logins", "id": "a", "cost": 2}, {"limit": "Orders", "id": "a", "mode": "check_only"},
        {"limit": "Monthly", "id": "a", "mode": "debit"}, {"limit": "Tiers", "id": "a"},
        {"limit": "Orders", "id": "b"}, {"limit": "Trial", "id": "b", "cost": 0},
    ]);
    let receipts = receipts(&service, T0, &asked);
    let are_there: Vec<_> = receipts.iter().map(Value::is_string).collect();
    assert_eq!(are_there, [true, false, true, false, true, false]);
    assert!(receipts.iter().all(|one| one.is_string() || one.is_null()));
    let texts = receipts.iter().filter_map(Value::as_str);
    assert!(texts.clone().all(|text| text.len() <= 400), "{texts:?}");
    let checked = service.decide("check", T0, &asked);
    assert_eq!(checked["transactions"][0].get("receipt"), None);
    let denied = service.decide("spend", T0, &one("Logins", 4));
    assert_eq!(denied["transactions"][0]["receipt"], Value::Null);
}
