//! What the service makes of its files: overrides, id formats, and what has changed.

use serde_json::{Value, json};

use super::process::{Service, T0, file};
use crate::programs::{self, replace};

const FORMATS: &str = "
Address: {number: 1, id: ipAddress, burst: 20, count: 20, period: 1s}
Range: {number: 2, id: ipv6RangeCIDR, burst: 20, count: 20, period: 1s}
Domain: {number: 5, id: domain, burst: 20, count: 20, period: 1s}
Account: {number: 6, id: regId, burst: 20, count: 20, period: 1s}
Names: {number: 7, id: fqdnSet, burst: 20, count: 20, period: 1s}
AccountDomain: {number: 8, id: 'regId:domain'}
AccountNames: {number: 9, id: 'regId:fqdnSet', burst: 20, count: 20, period: 1s}
Opaque: {burst: 20, count: 20, period: 1s}
";

const OVERRIDES: &str = "
- Address: {burst: 30, count: 20, period: 1s, ids: [10.0.0.2, '2001:0db8::ff00:0042:8329']}
- Range: {burst: 30, count: 20, period: 1s, ids: [2001:0db8:0000::/48]}
- Domain: {burst: 30, count: 20, period: 1s, ids: [{id: Example.com, comment: ours}]}
- Account: {burst: 30, count: 20, period: 1s, ids: [12345678]}
- Names: {burst: 30, count: 20, period: 1s, ids: ['example.org,example.com']}
- AccountDomain: {burst: 30, count: 20, period: 1s, ids: [12345678:example.com]}
- AccountNames: {burst: 30, count: 20, period: 1s, ids: ['12345678:example.org,example.com']}
- Opaque: {burst: 30, count: 20, period: 1s, ids: [0012, 1e5, ~, true, 12345678901234567890]}
";

fn start(overrides: &str) -> Service {
    Service::start_on(FORMATS, &["--manual-clock", "--overrides", overrides])
}

/// How many tokens are left once one is spent.
fn spend(service: &Service, limit: &str, id: &str) -> Value {
    let answer = service.decide("spend", T0, &json!([{"limit": limit, "id": id}]));
    assert_eq!(
        answer["transactions"][0]["id"], id,
        "ids come back as they were sent"
    );
    answer["remaining"].clone()
}

const SPELLINGS: [(&str, &[&str], u32); 14] = [
    (
        "Address",
        &["10.0.0.2", "::ffff:10.0.0.2", "::FFFF:a00:2"],
        30,
    ),
    (
        "Address",
        &["2001:db8::ff00:42:8329", "2001:0DB8:0:0:0:ff00:0042:8329"],
        30,
    ),
    ("Address", &["10.0.0.3"], 20),
    (
        "Range",
        &["2001:db8::/48", "2001:db8::1", "2001:db8:0:ffff::7"],
        30,
    ),
    ("Range", &["2001:db8:1::/48", "2001:0db8:0001::1"], 20),
    (
        "Domain",
        &["example.com", "www.example.com", "*.Example.COM."],
        30,
    ),
    ("Domain", &["foo.github.io", "a.foo.github.io"], 20),
    ("Account", &["12345678"], 30),
    ("Account", &["12345679"], 20),
    (
        "Names",
        &[
            "example.com,example.org",
            "example.org,EXAMPLE.com,example.com",
        ],
        30,
    ),
    ("Names", &["example.com"], 20),
    (
        "AccountDomain",
        &["12345678:example.com", "12345678:www.example.com"],
        30,
    ),
    ("AccountNames", &["12345678:example.com,example.org"], 30),
    ("AccountNames", &["12345679:example.com,example.org"], 20),
];

#[test]
fn spellings_of_one_client_share_a_bucket_and_an_override() {
    let service = start(&file(OVERRIDES));
    for (limit, spellings, burst) in SPELLINGS {
        for (spent, id) in (1..).zip(spellings) {
            assert_eq!(spend(&service, limit, id), burst - spent, "{limit} {id}");
        }
    }
    for id in ["0012", "1e5", "~", "true", "12345678901234567890"] {
        assert_eq!(spend(&service, "Opaque", id), 29, "{id}");
    }
    assert_eq!(spend(&service, "Opaque", "12"), 19);
}

const OUT_OF_FORMAT: [(&str, [&str; 5]); 7] = [
    (
        "Address",
        ["", "10.0.0.256", "10.0.0.0/8", "10.0.0.1:80", "[::1]"],
    ),
    (
        "Range",
        [
            "10.0.0.1",
            "2001:db8::/64",
            "::ffff:10.0.0.1",
            "2001:db8::/",
            "x",
        ],
    ),
    (
        "Domain",
        [
            "com",
            "exa mple.com",
            "10.0.0.1",
            "a..com",
            "example.com:80",
        ],
    ),
    (
        "Account",
        ["0012", "+5", "-1", "18446744073709551616", "1e5"],
    ),
    ("Names", ["", ",", "a.com,", "a.com, b.com", "com"]),
    ("AccountDomain", ["7", "7:", ":a.com", "07:a.com", "7:com"]),
    (
        "AccountNames",
        ["7", "7:", ":a.com", "07:a.com", "7:a.com,"],
    ),
];

#[test]
fn ids_out_of_their_format_are_refused() {
    let service = start(&file(OVERRIDES));
    for (limit, ids) in OUT_OF_FORMAT {
        for id in ids {
            for op in ["check", "spend", "refund", "reset"] {
                let transactions = json!([{"limit": limit, "id": id}]);
                let response =
                    service.post(&json!({"op": op, "now_us": T0, "transactions": transactions}));
                assert_eq!(
                    (response.status, response.code()),
                    (400, "invalid_id"),
                    "{limit} {id}"
                );
            }
        }
    }
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
    assert_eq!(shown["overrides"][2], domain);
    // What is shown can be loaded, and says the same.
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
    // What was spent stays spent.
    assert_eq!(spend(&service, "Account", "12345678"), 28);
    replace(&overrides, "- Account: {burst: 1}");
    service.program.signal("HUP");
    service
        .program
        .expect_stderr("limits were not reloaded: the current ones stay in force");
    assert_eq!(spend(&service, "Account", "12345678"), 27);
}

#[test]
fn clients_are_blocked_unlimited_or_watched() {
    let defaults = "
Requests: {burst: 2, count: 2, period: 1h}
Watched: {burst: 1, count: 1, period: 1h, shadow: true}
Closed: {blocked: true}
";
    let overrides = file(
        "
- Requests: {blocked: true, ids: [never]}
- Requests: {unlimited: true, ids: [always]}
",
    );
    let service = Service::start_on(defaults, &["--manual-clock", "--overrides", &overrides]);
    let spend = |limit, id| service.decide("spend", T0, &json!([{"limit": limit, "id": id}]));
    for (limit, id) in [("Requests", "never"), ("Closed", "anyone")] {
        let blocked = spend(limit, id);
        let figures = |answer: &Value| {
            ["retry_after_us", "next_after_us", "reset_after_us"].map(|name| answer[name].clone())
        };
        assert_eq!(
            (&blocked["allowed"], &blocked["limited"]),
            (&json!(false), &json!(true))
        );
        assert_eq!(blocked["remaining"], 0);
        assert_eq!(figures(&blocked), [Value::Null, Value::Null, Value::Null]);
    }
    let free = spend("Requests", "always");
    assert_eq!(
        (&free["allowed"], &free["limited"]),
        (&json!(true), &json!(false))
    );
    for _ in 0..3 {
        assert_eq!(spend("Watched", "a")["allowed"], true);
    }
}
