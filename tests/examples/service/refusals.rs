//! Requests that cannot be decided: each with its code, and without an effect.

use serde_json::{Value, json};

use super::process::{Service, T0};

/// Spends one order, with `fields` instead of or beside its own.
fn order(fields: &Value) -> Value {
    let mut transaction = json!({"limit": "Orders", "id": "a"});
    for (name, value) in fields.as_object().expect("fields") {
        transaction[name] = value.clone();
    }
    json!({"op": "spend", "now_us": T0, "transactions": [transaction]})
}

fn expect_code(service: &Service, body: &str, code: &str) {
    let response = service.send("POST /v1/decide", body);
    assert_eq!(response.status, 400, "{body}: {}", response.body);
    assert_eq!(response.code(), code, "{body}: {}", response.body);
    let content_type = response.head.header("content-type");
    assert_eq!(content_type, Some("application/json"));
}

#[test]
fn body_of_another_form_is_invalid_json() {
    let service = Service::start();
    let bodies = [
        "",
        "{",
        "[]",
        r#"{"now_us": 0, "transactions": []}"#,
        r#"{"op": "spend", "now_us": 0}"#,
        r#"{"op": "take", "now_us": 0, "transactions": []}"#,
        r#"{"op": {"spend": null}, "now_us": 0, "transactions": []}"#,
        r#"{"op": "spend", "now_us": 0, "transactions": [1]}"#,
        r#"{"op": "spend", "now_us": 0, "transactions": [["Orders", "a"]]}"#,
        r#"{"op": "spend", "now_us": 0, "transactions": [{"limit": 6, "id": "a"}]}"#,
        r#"{"op": "spend", "now_us": 0, "transactions": [{"id": "a"}]}"#,
        r#"{"op": "spend", "now_us": 0, "transactions": [{"limit": "Orders"}]}"#,
        r#"{"op": "spend", "now_us": 0, "transactions": [{"limit": "Orders", "id": "a", "x": 1}]}"#,
        r#"{"op": "spend", "now_us": 0, "transactions": [], "mode": "debit"}"#,
        r#"{"op": "spend", "op": "spend", "now_us": 0, "transactions": []}"#,
        r#"{"op": "spend", "now_us": 0, "transactions": []} {}"#,
        r#"["spend", 0, []]"#,
    ];
    for body in bodies {
        expect_code(&service, body, "invalid_json");
    }
    let response = service.send("POST /v1/decide", b"{\"op\": \"\xff\"}");
    assert_eq!((response.status, response.code()), (400, "invalid_json"));
    expect_code(&service, &"[".repeat(100_000), "invalid_json");
}

#[test]
fn mistakes_in_a_transaction_have_their_codes() {
    let service = Service::start();
    let cases = [
        (json!({"limit": "Order"}), "unknown_limit"),
        (json!({"limit": ""}), "unknown_limit"),
        (json!({"id": ""}), "invalid_id"),
        (json!({"id": 12_345_678}), "invalid_id"),
        (json!({"id": null}), "invalid_id"),
        (json!({"limit": "Off", "id": ""}), "invalid_id"),
        (json!({"cost": 21}), "invalid_cost"),
        (json!({"cost": 21, "mode": "check_only"}), "invalid_cost"),
        (json!({"cost": 21, "mode": "spend_only"}), "invalid_cost"),
        (json!({"cost": -1}), "invalid_cost"),
        (json!({"cost": "1"}), "invalid_cost"),
        (json!({"cost": null}), "invalid_cost"),
        (
            json!({"cost": 1_u64 << 32, "mode": "debit"}),
            "invalid_cost",
        ),
        (json!({"cost": 1e30, "mode": "debit"}), "invalid_cost"),
        (json!({"min_cost": 1}), "invalid_cost"),
        (json!({"min_cost": null}), "invalid_cost"),
        (json!({"mode": "spend"}), "invalid_mode"),
        (json!({"mode": null}), "invalid_mode"),
    ];
    for (fields, code) in cases {
        expect_code(&service, &order(&fields).to_string(), code);
    }
    let one = json!({"limit": "Orders", "id": "a"});
    let twice = json!({"op": "spend", "now_us": T0, "transactions": [one, one]});
    expect_code(&service, &twice.to_string(), "duplicate_bucket");
    let tiers = service.post(&order(&json!({"min_cost": 1})));
    assert!(tiers.body.to_string().contains("tiers"), "{}", tiers.body);
    let highest = order(&json!({"cost": u32::MAX, "mode": "debit"}));
    assert_eq!(service.post(&highest).status, 200);
}

#[test]
fn manual_clock_wants_a_time_in_every_request() {
    let service = Service::start();
    for op in ["check", "spend", "refund", "reset"] {
        let body = json!({"op": op, "transactions": []});
        expect_code(&service, &body.to_string(), "missing_now");
    }
    for now in [
        "-1",
        "1.5",
        "4503599627370496",
        "1e400",
        "1e3",
        "\"0\"",
        "null",
        "true",
        "[]",
    ] {
        let body = format!(r#"{{"op": "spend", "now_us": {now}, "transactions": []}}"#);
        // A number beyond all bounds is none in JSON as it is read here.
        let code = if now == "1e400" {
            "invalid_json"
        } else {
            "invalid_now"
        };
        expect_code(&service, &body, code);
    }
}

#[test]
fn body_over_1_mib_is_too_large() {
    let service = Service::start();
    let order = order(&json!({})).to_string();
    // Padded in front, so that the order is lost if the last byte is.
    let send = |length| {
        let body = " ".repeat(length - order.len()) + &order;
        service.send("POST /v1/decide", body)
    };
    // Far more than fits into the buffers between here and there arrives at an answer, too.
    for (length, status) in [(1 << 20, 200), ((1 << 20) + 1, 413), (20 << 20, 413)] {
        let response = send(length);
        assert_eq!(response.status, status, "{length}");
        if status == 413 {
            assert_eq!(response.code(), "too_large");
        }
    }
}

#[test]
fn other_paths_and_methods_are_json_errors() {
    let service = Service::start();
    for path in [
        "GET /",
        "GET /v1",
        "POST /v1/decide/",
        "GET /metrics",
        "POST /v2/decide",
    ] {
        let response = service.send(path, b"");
        assert_eq!(
            (response.status, response.code()),
            (404, "not_found"),
            "{path}"
        );
    }
    let cases = [
        ("GET /v1/decide", "POST"),
        ("PUT /v1/decide", "POST"),
        ("POST /v1/limits", "GET"),
        ("DELETE /healthz", "GET"),
    ];
    for (request, allow) in cases {
        let response = service.send(request, b"");
        assert_eq!(
            (response.status, response.code()),
            (405, "method_not_allowed"),
            "{request}"
        );
        let allowed = response.head.header("allow").unwrap_or_default();
        assert!(allowed.starts_with(allow), "{request}: {allowed}");
    }
}
