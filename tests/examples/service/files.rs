//! The service reads its files: overrides, id formats and changes.

use serde_json::{Value, json};

use super::process::{Service, T0, file};
use crate::programs::{self, replace};

const LIMITS: &str = "
Domain: {number: 5, id: domain, burst: 20, count: 20, period: 1s}
Account: {number: 6, id: regId, burst: 20, count: 20, period: 1s}
AccountDomain: {number: 8, id: 'regId:domain'}
Opaque: {burst: 20, count: 20, period: 1s}
";

const OVERRIDES: &str = "
- Domain: {burst: 30, count: 20, period: 1s, ids: [{id: Example.com, comment: ours}]}
- Account: {burst: 30, count: 20, period: 1s, ids: [12345678]}
- AccountDomain: {burst: 30, count: 20, period: 1s, ids: [12345678:example.com]}
- Opaque: {burst: 30, count: 20, period: 1s, ids: [0012, 1e5, ~, true, 12345678901234567890]}
";

fn start(overrides: &str) -> Service {
    Service::start_on(LIMITS, &["--manual-clock", "--overrides", overrides])
}

/// Spends a token, and returns how many are left.
fn spend(service: &Service, limit: &str, id: &str) -> Value {
    let answer = service.decide("spend", T0, &json!([{"limit": limit, "id": id}]));
    assert_eq!(
        answer["transactions"][0]["id"], id,
        "ids come back as they were sent"
    );
    answer["remaining"].clone()
}

#[test]
fn limits_are_shown_as_files_have_them() {
    let overrides = file(OVERRIDES);
    let shown = start(&overrides).send("GET /v1/limits", b"").body;
    assert_eq!(
        shown["defaults"]["AccountDomain"],
        json!({"number": 8, "id": "regId:domain"})
    );
    let domain = json!({"Domain": {
        "burst": 30, "count": 20, "period": "1s",
        "ids": [{"id": "Example.com", "comment": "ours"}],
    }});
    assert_eq!(shown["overrides"][0], domain);
    // The shown limits can be loaded, and are the same.
    let json = programs::file("overrides.json", &shown["overrides"].to_string());
    assert_eq!(start(&json).send("GET /v1/limits", b"").body, shown);
}

#[cfg(unix)]
#[test]
fn files_are_read_again_on_sighup() {
    let overrides = file("[]");
    let service = start(&overrides);
    assert_eq!(spend(&service, "Account", "12345678"), 19);
    replace(&overrides, OVERRIDES);
    service.program.signal("HUP");
    service.program.expect_stderr("limits were reloaded");
    // Spent units stay spent.
    assert_eq!(spend(&service, "Account", "12345678"), 28);
    replace(&overrides, "- Account: {burst: 1}");
    service.program.signal("HUP");
    service
        .program
        .expect_stderr("limits were not reloaded: the current ones stay in force");
    assert_eq!(spend(&service, "Account", "12345678"), 27);
}
