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

fn debit(limit: &str, cost: u32) -> Value {
    json!([{"limit": limit, "id": "a", "cost": cost, "mode": "debit"}])
}

#[test]
fn costs_that_cannot_be_are_refused() {
    let service = start();
    let refused = |op: &str, asked: &Value| {
        let body = json!({"op": op, "now_us": T0, "transactions": asked});
        let response = service.post(&body);
        assert_eq!(response.status, 400, "{op} {asked}");
        assert_eq!(response.code(), "invalid_cost", "{op} {asked}");
    };
    for (limit, cost) in [("Logins", 6), ("Hourly", 4), ("Trial", 3)] {
        refused("spend", &one(limit, cost));
        refused("check", &one(limit, cost));
        let answer = service.decide("refund", T0, &one(limit, cost));
        assert_eq!(answer["refunded"], false);
    }
    refused("spend", &debit("Logins", 4097));
    refused("check", &debit("Logins", 4097));
    service.decide("spend", T0, &one("Logins", 1));
    refused("spend", &debit("Logins", 4096));
    let both = json!([
        {"limit": "Trial", "id": "a"}, {"limit": "Logins", "id": "a", "cost": 4096, "mode": "debit"},
    ]);
    refused("spend", &both);
    service.decide("spend", T0, &one("Trial", 2));
    let denied = service.decide("spend", T0, &both);
    assert_eq!(denied["allowed"], false, "a denied batch stays a denial");
    let answer = service.decide("spend", T0, &debit("Logins", 4095));
    assert_eq!(answer["transactions"][0]["allowed"], true);
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
    assert!(texts.clone().all(|text| text.len() <= 200), "{texts:?}");
    let checked = service.decide("check", T0, &asked);
    assert_eq!(checked["transactions"][0].get("receipt"), None);
    let denied = service.decide("spend", T0, &one("Logins", 4));
    assert_eq!(denied["transactions"][0]["receipt"], Value::Null);
}
