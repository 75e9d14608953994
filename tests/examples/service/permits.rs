//! Concurrency limits: permits, their renewals and refunds, mistakes, and files.

use serde_json::{Value, json};

use super::process::{Service, T0};

const LIMITS: &str = "
Exports: {number: 4, concurrent: 2, hold: 10s}
Uploads: {concurrent: 4}
Orders: {number: 6, burst: 20, count: 20, period: 1s}
Logins: {limit: 5, window: 15m}
Off: {}
";

fn one(limit: &str, cost: u32) -> Value {
    json!([{"limit": limit, "id": "a", "cost": cost}])
}

fn by(limit: &str, receipt: &Value) -> Value {
    json!({"limit": limit, "id": "a", "receipt": receipt})
}

fn receipt(answer: &Value) -> Value {
    answer["transactions"][0]["receipt"].clone()
}

#[test]
fn answers_have_every_figure_of_permits() {
    let service = Service::start_on(LIMITS, &["--manual-clock"]);
    let mut taken = service.decide("spend", T0, &one("Exports", 2));
    let held = taken["transactions"][0]["receipt"].take();
    assert!(held.as_str().unwrap().len() <= 400);
    let mut member = json!({
        "allowed": true, "limited": true, "limit": "Exports", "id": "a",
        "remaining": 0, "retry_after_us": 0, "next_after_us": null, "reset_after_us": null,
    });
    let mut expected = member.clone();
    member["receipt"] = Value::Null;
    expected["transactions"] = json!([member]);
    assert_eq!(taken, expected);

    let renewed = service.decide("renew", T0 + 1, &json!([by("Exports", &held)]));
    let next = receipt(&renewed);
    assert_eq!(
        renewed,
        json!({"renewed": true, "transactions": [
            {"limit": "Exports", "id": "a", "renewed": true, "receipt": next, "remaining": 0},
        ]})
    );
    let refunded = service.decide("refund", T0 + 1, &json!([by("Exports", &next)]));
    assert_eq!(refunded["refunded"], true);
    let renewed = service.decide("renew", T0 + 1, &json!([by("Exports", &next)]));
    assert_eq!(
        renewed,
        json!({"renewed": false, "transactions": [
            {"limit": "Exports", "id": "a", "renewed": false, "receipt": null, "remaining": 2},
        ]})
    );
}

fn plain() -> Value {
    json!({"limit": "Exports", "id": "a"})
}

fn with(mut transaction: Value, field: &str, value: Value) -> Value {
    transaction[field] = value;
    transaction
}

/// Asserts that each of these transactions is refused with a code.
fn assert_refused<const N: usize>(service: &Service, refused: [(&str, Value, &str); N]) {
    for (op, transaction, code) in refused {
        let body = json!({"op": op, "now_us": T0, "transactions": [transaction]});
        let response = service.post(&body);
        assert_eq!(response.status, 400, "{body}: {}", response.body);
        assert_eq!(response.code(), code, "{body}: {}", response.body);
    }
}

#[test]
fn only_receipts_renew_and_refund() {
    let service = Service::start_on(LIMITS, &["--manual-clock"]);
    let order = receipt(&service.decide("spend", T0, &one("Orders", 1)));
    let login = receipt(&service.decide("spend", T0, &one("Logins", 1)));
    let export = receipt(&service.decide("spend", T0, &one("Exports", 1)));
    let costly = with(by("Exports", &export), "cost", json!(1));
    let refused = [
        ("refund", plain(), "invalid_receipt"),
        ("refund", with(plain(), "cost", json!(1)), "invalid_receipt"),
        (
            "refund",
            with(plain(), "mode", json!("check_only")),
            "invalid_receipt",
        ),
        ("renew", plain(), "invalid_receipt"),
        ("renew", by("Exports", &json!("none")), "invalid_receipt"),
        ("renew", by("Exports", &json!(7)), "invalid_receipt"),
        ("renew", by("Uploads", &export), "invalid_receipt"),
        ("renew", by("Exports", &order), "invalid_receipt"),
        ("renew", costly, "invalid_cost"),
        ("renew", by("Orders", &order), "invalid_mode"),
        ("renew", by("Logins", &login), "invalid_mode"),
        ("spend", by("Exports", &export), "invalid_receipt"),
        ("renew", json!({"limit": "N", "id": "a"}), "unknown_limit"),
    ];
    assert_refused(&service, refused);
    let off = service.decide("renew", T0, &json!([{"limit": "Off", "id": "a"}]));
    assert_eq!(off["transactions"][0]["renewed"], false);
}
