//! What the service makes of its files: overrides, id formats, and what has changed.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::process::{Service, T0, file, replace, run};

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

fn start(overrides: &Path) -> Service {
    let overrides = overrides.to_str().expect("it is UTF-8");
    Service::start_on(FORMATS, &["--manual-clock", "--overrides", overrides])
}

/// How many tokens are left once one is spent.
fn spend(service: &Service, limit: &str, id: &str) -> Value {
    let answer = service.decide("spend", T0, &json!([{"limit": limit, "id": id}]));
    assert_eq!(
        answer["transactions"][0]["id"], id,
        "ids are told as they were sent"
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

#[test]
fn limit_with_overrides_alone_is_off_for_others() {
    let service = start(&file(OVERRIDES));
    let others = json!([{"limit": "AccountDomain", "id": "7:example.com"}]);
    let answer = service.decide("spend", T0, &others);
    assert_eq!(
        (&answer["limited"], &answer["allowed"]),
        (&json!(false), &json!(true))
    );
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
fn two_spellings_of_one_client_are_twice_the_same_bucket() {
    let service = start(&file(OVERRIDES));
    let twice = ["www.example.com", "example.com"].map(|id| json!({"limit": "Domain", "id": id}));
    let response = service.post(&json!({"op": "spend", "now_us": T0, "transactions": twice}));
    assert_eq!(response.code(), "duplicate_bucket");
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
    let json = overrides.with_extension("json");
    fs::write(&json, shown["overrides"].to_string()).expect("it can be written");
    assert_eq!(start(&json).send("GET /v1/limits", b"").body, shown);
}

#[cfg(unix)]
#[test]
fn files_are_read_again_on_sighup() {
    let overrides = file("[]");
    let service = start(&overrides);
    assert_eq!(spend(&service, "Account", "12345678"), 19);
    replace(&overrides, OVERRIDES);
    service.signal("HUP");
    service.expect_stderr("limits were reloaded");
    // What was spent stays spent.
    assert_eq!(spend(&service, "Account", "12345678"), 28);
    replace(&overrides, "- Account: {burst: 1}");
    service.signal("HUP");
    service.expect_stderr("limits were not reloaded: the current ones stay in force");
    assert_eq!(spend(&service, "Account", "12345678"), 27);
}

const BAD_OVERRIDES: [(&str, &str); 5] = [
    (
        "- Acount: {burst: 1, count: 1, period: 1s, ids: [7]}",
        "did you mean `Account`?",
    ),
    (
        "- Account: {burst: 1, count: 1, period: 1s, ids: [07]}",
        "not an id in the format regId",
    ),
    (
        "- Account: {burst: 1, count: 1, period: 1s, ids: []}",
        "ids is empty",
    ),
    (
        "- Account: {burst: 1, count: 1, period: 1s, ids: [7, 7]}",
        "an override already",
    ),
    (
        "- Domain: {burst: 1, count: 1, period: 1s, ids: [www.example.com]}",
        "`example.com`",
    ),
];

#[test]
fn bad_overrides_file_is_refused_whole() {
    let defaults = file(FORMATS);
    for (text, reason) in BAD_OVERRIDES {
        let overrides = file(text);
        let paths = [&defaults, &overrides].map(|path| path.to_str().expect("it is UTF-8"));
        let output = run(&[
            "--listen",
            "127.0.0.1:0",
            "--defaults",
            paths[0],
            "--overrides",
            paths[1],
        ]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(
            message.contains(paths[1]) && message.contains(reason),
            "{message}"
        );
    }
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
    let overrides = overrides.to_str().expect("it is UTF-8");
    let service = Service::start_on(defaults, &["--manual-clock", "--overrides", overrides]);
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
