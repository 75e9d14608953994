//! Windows and quotas: their figures, debits and refunds, receipts, files and mistakes.

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

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3600 * SECOND;
const DAY: u64 = 24 * HOUR;

fn start() -> Service {
    Service::start_on(LIMITS, &["--manual-clock"])
}

fn one(limit: &str, cost: u32) -> Value {
    json!([{"limit": limit, "id": "a", "cost": cost}])
}

fn debit(limit: &str, cost: u32) -> Value {
    json!([{"limit": limit, "id": "a", "cost": cost, "mode": "debit"}])
}

/// Whether it is allowed or refunded, what remains, and the waits.
fn figures(answer: &Value) -> Value {
    let verdict = answer.get("allowed").or(answer.get("refunded"));
    let fields = [
        "remaining",
        "retry_after_us",
        "next_after_us",
        "reset_after_us",
    ];
    let fields = fields.iter().map(|field| answer[field].clone());
    verdict.cloned().into_iter().chain(fields).collect()
}

#[test]
fn window_is_answered_like_any_limit() {
    let service = start();
    let answer = service.decide("spend", T0, &one("Logins", 3));
    let keys: Vec<_> = answer.as_object().unwrap().keys().cloned().collect();
    assert_eq!(
        keys,
        [
            "allowed",
            "id",
            "limit",
            "limited",
            "next_after_us",
            "remaining",
            "reset_after_us",
            "retry_after_us",
            "transactions"
        ]
    );
    let window = 900 * SECOND;
    assert_eq!(figures(&answer), json!([true, 2, 0, window, window]));
    for (later, cost, expected) in [
        (SECOND, 2, json!([true, 0, 0, window - SECOND, window])),
        (
            2 * SECOND,
            1,
            json!([
                false,
                0,
                window - 2 * SECOND,
                window - 2 * SECOND,
                window - SECOND
            ]),
        ),
        (window - 1, 0, json!([true, 0, 0, 0, SECOND + 1])),
        (window - 1, 3, json!([false, 0, 1, 1, SECOND + 1])),
        (window, 3, json!([true, 0, 0, window, window])),
    ] {
        let answer = service.decide("spend", T0 + later, &one("Logins", cost));
        assert_eq!(figures(&answer), expected, "{cost} after {later}");
    }
}

#[test]
fn quota_is_answered_like_any_limit() {
    let service = start();
    let half = HOUR / 2;
    for (later, cost, expected) in [
        (0, 2, json!([true, 1, 0, half, half])),
        (1, 2, json!([false, 1, half - 1, half - 1, half - 1])),
        (half - 1, 1, json!([true, 0, 0, 1, 1])),
        (half, 0, json!([true, 3, 0, 0, 0])),
        (half, 3, json!([true, 0, 0, HOUR, HOUR])),
    ] {
        let answer = service.decide("spend", T0 + later, &one("Hourly", cost));
        assert_eq!(figures(&answer), expected, "{cost} after {later}");
    }
    let answer = service.decide("spend", T0 + 5, &one("Monthly", 1));
    let rest = 31 * DAY - 5;
    assert_eq!(figures(&answer), json!([true, 999, 0, 0, rest]));
    let answer = service.decide("spend", T0 + 5, &one("Trial", 2));
    assert_eq!(figures(&answer), json!([true, 0, 0, DAY, DAY]));
    let answer = service.decide("spend", T0 + 4 + DAY, &one("Trial", 1));
    assert_eq!(figures(&answer), json!([false, 0, 1, 1, 1]));
}

#[test]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
fn debits_and_refunds_of_both_are_answered() {
    let service = start();
    let window = 900 * SECOND;
    for (op, asked, expected) in [
        (
            "spend",
            debit("Logins", 7),
            json!([true, 0, 0, null, window]),
        ),
        (
            "check",
            one("Logins", 0),
            json!([false, 0, window, window, window]),
        ),
        (
            "refund",
            debit("Logins", 3),
            json!([true, 1, 0, window, window]),
        ),
        ("refund", one("Logins", 9), json!([true, 5, 0, null, 0])),
        ("refund", one("Logins", 1), json!([false, 5, 0, 0, 0])),
        (
            "spend",
            debit("Trial", u32::MAX),
            json!([true, 0, 0, DAY, DAY]),
        ),
        (
            "spend",
            debit("Trial", u32::MAX),
            json!([true, 0, 0, DAY, DAY]),
        ),
        (
            "refund",
            debit("Trial", u32::MAX - 1),
            json!([true, 1, 0, DAY, DAY]),
        ),
        ("refund", one("Trial", 5), json!([true, 2, 0, DAY, 0])),
    ] {
        let answer = service.decide(op, T0, &asked);
        assert_eq!(
            figures(&answer["transactions"][0]),
            expected,
            "{op} {asked}"
        );
    }
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

fn refund(limit: &str, receipt: &Value) -> Value {
    json!([{"limit": limit, "id": "a", "receipt": receipt}])
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

#[test]
fn receipt_gives_back_its_own_charge_and_survives_a_restart_of_a_caller() {
    let service = start();
    let first = receipts(&service, T0, &one("Logins", 2)).remove(0);
    let second = receipts(&service, T0 + 1, &one("Logins", 1)).remove(0);
    let window = 900 * SECOND;
    let answer = service.decide("refund", T0 + 2, &refund("Logins", &first));
    assert_eq!(figures(&answer), json!([true, 4, 0, 0, window - 1]));
    let again = service.decide("refund", T0 + 2, &refund("Logins", &first));
    assert_eq!(again["refunded"], false, "its units are there no more");
    let late = service.decide("refund", T0 + 1 + window, &refund("Logins", &second));
    assert_eq!(late["refunded"], false);
    let trial = receipts(&service, T0, &one("Trial", 1)).remove(0);
    let after = service.decide("refund", T0 + DAY, &refund("Trial", &trial));
    assert_eq!(figures(&after), json!([false, 2, 0, 0, 0]));
    let orders = receipts(&service, T0, &one("Orders", 5)).remove(0);
    let answer = service.decide("refund", T0, &refund("Orders", &orders));
    assert_eq!(figures(&answer), json!([true, 20, 0, 0, 0]));
}

#[test]
fn receipts_of_others_are_refused() {
    let service = start();
    let receipt = receipts(&service, T0, &one("Logins", 1)).remove(0);
    let text = receipt.as_str().unwrap();
    let mut bent = text.to_owned();
    bent.replace_range(9..10, if &text[9..10] == "0" { "1" } else { "0" });
    let refused = |op: &str, asked: Value, code: &str| {
        let body = json!({"op": op, "now_us": T0, "transactions": [asked]});
        let response = service.post(&body);
        assert_eq!((response.status, response.code()), (400, code), "{body}");
    };
    for (limit, id, receipt) in [
        ("Logins", "b", &receipt),
        ("Trial", "a", &receipt),
        ("Orders", "a", &receipt),
        ("Logins", "a", &json!(bent)),
        ("Logins", "a", &json!("")),
        ("Logins", "a", &json!("x".repeat(300))),
        ("Logins", "a", &json!(7)),
        ("Logins", "a", &Value::Null),
    ] {
        let asked = json!({"limit": limit, "id": id, "receipt": receipt});
        refused("refund", asked, "invalid_receipt");
    }
    let asked = json!({"limit": "Logins", "id": "a", "receipt": receipt});
    refused("spend", asked, "invalid_receipt");
    let asked = json!({"limit": "Logins", "id": "a", "receipt": receipt, "cost": 1});
    refused("refund", asked, "invalid_cost");
    let asked = json!({"limit": "Nothing", "id": "a", "receipt": receipt});
    refused("refund", asked, "unknown_limit");
}

#[test]
fn limits_are_shown_as_in_files() {
    let service = start();
    let shown = service.send("GET /v1/limits", b"").body;
    let defaults = &shown["defaults"];
    let window = json!({"number": 5, "limit": 5, "window": "15m0s"});
    assert_eq!(defaults["Logins"], window);
    let hourly = json!({"quota": 3, "per": "hour", "utc_offset": "+00:30"});
    assert_eq!(defaults["Hourly"], hourly);
    assert_eq!(defaults["Trial"], json!({"quota": 2, "per": "24h0m0s"}));
}
