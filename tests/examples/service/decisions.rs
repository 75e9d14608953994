//! Decisions: each figure of each answer.

use serde_json::{Value, json};

use super::process::{Service, T0, without_receipts};

/// One transaction of cost 1.
fn one(limit: &str, id: &str) -> Value {
    json!({"limit": limit, "id": id})
}

/// Transactions of one client, a mode each.
fn with_modes(members: &[(&str, &str, u32)]) -> Value {
    members
        .iter()
        .map(|(limit, mode, cost)| json!({"limit": limit, "id": "a", "cost": cost, "mode": mode}))
        .collect()
}

#[test]
fn spend_answers_with_every_figure() {
    let service = Service::start();
    let asked =
        json!([{"limit": "Orders", "id": "12345678", "cost": 1, "mode": "check_and_spend"}]);
    let expected = json!({
        "allowed": true, "limited": true, "limit": "Orders", "id": "12345678",
        "remaining": 19, "retry_after_us": 0, "next_after_us": 0, "reset_after_us": 50_000,
        "transactions": [{
            "limit": "Orders", "id": "12345678", "allowed": true, "limited": true,
            "remaining": 19, "retry_after_us": 0, "next_after_us": 0, "reset_after_us": 50_000,
        }],
    });
    assert_eq!(
        without_receipts(service.decide("spend", T0, &asked)),
        expected
    );
}

#[test]
fn members_that_are_off_are_not_limited() {
    let service = Service::start();
    let off = |verdict: &str, value: bool, limit: &str| {
        json!({
            "limit": limit, "id": "x", verdict: value, "limited": false, "remaining": null,
            "retry_after_us": null, "next_after_us": null, "reset_after_us": null,
        })
    };
    let asked = json!([one("Off", "x"), one("Bare", "x")]);
    for (op, verdict, value) in [
        ("spend", "allowed", true),
        ("check", "allowed", true),
        ("refund", "refunded", false),
    ] {
        let expected = json!({
            verdict: value, "limited": false, "limit": null, "id": null, "remaining": null,
            "retry_after_us": null, "next_after_us": null, "reset_after_us": null,
            "transactions": [off(verdict, value, "Off"), off(verdict, value, "Bare")],
        });
        let answer = service.decide(op, T0, &asked);
        let answer = match op {
            "spend" => without_receipts(answer),
            _ => answer,
        };
        assert_eq!(answer, expected, "{op}");
    }
    let mixed = service.decide("spend", T0, &json!([one("Off", "x"), one("Orders", "x")]));
    assert_eq!(
        (&mixed["limit"], &mixed["remaining"]),
        (&json!("Orders"), &json!(19))
    );
    let mut not_limited = off("allowed", true, "Off");
    not_limited["receipt"] = Value::Null;
    assert_eq!(mixed["transactions"][0], not_limited);
    let empty = service.decide("spend", T0, &json!([]));
    assert_eq!(
        (&empty["allowed"], &empty["limited"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(empty["transactions"], json!([]));
}

#[test]
fn refund_answers_with_every_figure() {
    let service = Service::start();
    service.decide(
        "spend",
        T0,
        &with_modes(&[("Orders", "check_and_spend", 3)]),
    );
    let refund = with_modes(&[("Orders", "check_and_spend", 2)]);
    let expected = json!({
        "refunded": true, "limited": true, "limit": "Orders", "id": "a",
        "remaining": 19, "retry_after_us": 0, "next_after_us": 0, "reset_after_us": 50_000,
        "transactions": [{
            "limit": "Orders", "id": "a", "refunded": true, "limited": true,
            "remaining": 19, "retry_after_us": 0, "next_after_us": 0, "reset_after_us": 50_000,
        }],
    });
    assert_eq!(service.decide("refund", T0, &refund), expected);
}

#[test]
fn answers_on_limits_with_a_line_carry_the_delay() {
    let line = "Line: {burst: 1, count: 1, period: 1s, max_wait: 2s}";
    let service = Service::start_on(line, &["--manual-clock"]);
    for delay in [0, 1_000_000] {
        let answer = service.decide("spend", T0, &json!([one("Line", "a")]));
        assert_eq!(answer["delay_us"], delay);
        assert_eq!(answer["transactions"][0]["delay_us"], delay);
    }
    let no_wait = json!([{"limit": "Line", "id": "a", "no_wait": true}]);
    let denied = service.decide("spend", T0, &no_wait);
    assert_eq!(
        (&denied["allowed"], &denied["delay_us"]),
        (&json!(false), &json!(0))
    );
    let refunded = service.decide("refund", T0, &json!([one("Line", "a")]));
    assert_eq!(refunded["delay_us"], 0);
}
