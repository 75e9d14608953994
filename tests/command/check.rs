//! `tollgate check`: what it finds in files, and what it says a client gets.

use std::process::Output;

use serde_json::{Value, json};

use crate::program::{self, expect_refusal, file, stderr, stdout};

const DEFAULTS: &str = "
Address: {number: 1, id: ipAddress, burst: 20, count: 10, period: 1s}
Range: {number: 2, id: ipv6RangeCIDR, burst: 500, count: 500, period: 180m, shadow: true}
Domain: {number: 5, id: domain, burst: 50, count: 50, period: 168h}
Account: {number: 6, id: regId}
Partners: {blocked: true}
Monitoring: {unlimited: true}
Bursts:
  tiers:
    - {limit: 5, window: 1s}
    - {limit: 50, window: 5s, active: 5s, cooldown: 15s}
Logins: {limit: 5, window: 15m}
Plan: {quota: 1000, per: month}
";

const OVERRIDES: &str = "
- Address:
    burst: 30
    count: 20
    period: 1s
    ids: [{id: '2001:0db8::1', comment: our own probe}, 10.0.0.2]
- Range: {unlimited: true, ids: ['2001:db8::/48']}
- Account: {blocked: true, ids: [{id: 666, comment: stolen key}]}
- Partners: {burst: 1, count: 1, period: 1s, ids: [acme, --odd]}
";

const JSON: [&str; 1] = ["--json"];

/// Runs it with [`DEFAULTS`] and [`OVERRIDES`], and what else is asked.
fn check(more: &[&str]) -> Output {
    let (defaults, overrides) = (file("yml", DEFAULTS), file("yml", OVERRIDES));
    let files = ["--limits", &defaults, "--overrides", &overrides];
    run(&[&files, more].concat())
}

fn run(args: &[&str]) -> Output {
    program::run(&[&["check"], args].concat())
}

/// Expects one line of JSON, this exit code, and nothing else.
#[track_caller]
fn json_of(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
    assert_eq!(stderr(output), "");
    assert_eq!(stdout(output).lines().count(), 1);
    let text = stdout(output);
    serde_json::from_str(text).expect(text)
}

/// Expects this text on standard output, and success.
#[track_caller]
fn expect_text(output: &Output, text: &str) {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    assert_eq!((stdout(output), stderr(output)), (text, ""));
}

#[test]
fn good_files_are_summed_up() {
    expect_text(
        &check(&[]),
        "limits: 9\n  in shadow mode: Range\n  blocked: Partners\n  unlimited: Monitoring\n  \
         without values: Account\n  Address: at most 29 in any 1s\n  Bursts: at most 55 in any 1s\n  \
         Domain: at most 99 in any 168h0m0s\n  Logins: at most 5 in any 15m0s\n  Plan: at most 2000 in any 672h0m0s\n  \
         Range: at most 999 in any 3h0m0s\noverrides: 6\n  blocked: 1\n  unlimited: 1\n",
    );
    let summed = json!({
        "ok": true,
        "limits": {
            "count": 9, "shadow": ["Range"], "blocked": ["Partners"], "unlimited": ["Monitoring"],
            "not_limited": ["Account"],
            "bounds": {
                "Address": {"most": 29, "within": "1s"}, "Bursts": {"most": 55, "within": "1s"},
                "Domain": {"most": 99, "within": "168h0m0s"}, "Logins": {"most": 5, "within": "15m0s"},
                "Plan": {"most": 2000, "within": "672h0m0s"}, "Range": {"most": 999, "within": "3h0m0s"},
            },
        },
        "overrides": {"count": 6, "blocked": 1, "unlimited": 1},
    });
    assert_eq!(json_of(&check(&JSON), 0), summed);
}

#[test]
fn overrides_need_not_be() {
    let defaults = file("json", r#"{"a": {"burst": 1, "count": 1, "period": "1s"}}"#);
    let output = run(&["--limits", &defaults]);
    expect_text(
        &output,
        "limits: 1\n  a: at most 1 in any 1s\noverrides: 0\n",
    );
}

#[test]
fn toml_is_read() {
    let defaults = file("toml", "[a]\nburst = 1\ncount = 1\nperiod = '1s'\n");
    let output = run(&["--limits", &defaults, "a", "x"]);
    expect_text(
        &output,
        "a x\n  limit: 1 per 1s, 1 at once\n  at most: 1 in any 1s\n  from: the default\n  bucket: a:x\n",
    );
}

/// The request, and the lines of the answer.
const CLIENTS: [([&str; 2], &str); 8] = [
    (
        ["Address", "::ffff:10.0.0.3"],
        "limit: 10 per 1s, 20 at once\n  at most: 29 in any 1s\n  from: the default\n  bucket: 1:10.0.0.3",
    ),
    (
        ["Address", "2001:DB8:0::1"],
        "limit: 20 per 1s, 30 at once\n  at most: 49 in any 1s\n  from: the override for `2001:0db8::1` (our own probe)\n  \
         bucket: 1:2001:db8::1",
    ),
    (
        ["Range", "2001:db8::7"],
        "limit: unlimited\n  from: the override for `2001:db8::/48`\n  bucket: 2:2001:db8::/48\n  \
         shadow mode: it refuses nobody",
    ),
    (
        ["Domain", "www.Example.com"],
        "limit: 50 per 168h0m0s, 50 at once\n  at most: 99 in any 168h0m0s\n  from: the default\n  bucket: 5:example.com",
    ),
    (
        ["Account", "666"],
        "limit: blocked\n  from: the override for `666` (stolen key)\n  bucket: 6:666",
    ),
    (
        ["Account", "7"],
        "limit: not limited\n  from: neither a default nor an override\n  bucket: 6:7",
    ),
    (
        ["Partners", "x y"],
        "limit: blocked\n  from: the default\n  bucket: Partners:x y",
    ),
    (
        ["Bursts", "x"],
        "limit: 5 per 1s for infinite, then 50 per 5s for 5s, cooldown 15s\n  at most: 55 in any 1s\n  from: the default\n  bucket: Bursts~t:x",
    ),
];

#[test]
fn clients_are_told_in_text() {
    let mut told = Vec::new();
    for (asked, text) in CLIENTS {
        told.push(format!("{} {}\n  {text}\n", asked[0], asked[1]));
        expect_text(&check(&asked), &told[told.len() - 1]);
    }
    let all = CLIENTS.map(|(asked, _)| asked);
    expect_text(&check(&all.concat()), &told.concat());
}

#[test]
fn clients_are_told_in_json() {
    let asked = ["Address", "10.0.0.2", "Range", "2001:db8:1::1"];
    let told = json_of(&check(&[&JSON, &asked[..]].concat()), 0);
    let address = json!({
        "limit": "Address", "id": "10.0.0.2", "key": "1:10.0.0.2",
        "values": {"burst": 30, "count": 20, "period": "1s"},
        "summary": "20 per 1s, 30 at once",
        "bound": {"most": 49, "within": "1s"},
        "override": {"id": "10.0.0.2", "comment": null},
        "shadow": false,
    });
    let range = json!({
        "limit": "Range", "id": "2001:db8:1::1", "key": "2:2001:db8:1::/48",
        "values": {"burst": 500, "count": 500, "period": "3h0m0s"},
        "summary": "500 per 3h0m0s, 500 at once",
        "bound": {"most": 999, "within": "3h0m0s"},
        "override": null,
        "shadow": true,
    });
    assert_eq!(told, json!({"ok": true, "clients": [address, range]}));
}

#[test]
fn values_of_all_kinds_are_told_in_json() {
    let asked = [
        "Account",
        "666",
        "Account",
        "7",
        "Bursts",
        "x",
        "Monitoring",
        "x",
    ];
    let told = json_of(&check(&[&JSON, &asked[..]].concat()), 0);
    let [blocked, none, tiers, unlimited] = [0, 1, 2, 3].map(|i| &told["clients"][i]);
    assert_eq!(blocked["values"], json!({"blocked": true}));
    assert_eq!(blocked["override"]["comment"], "stolen key");
    assert_eq!(none["values"], json!(null));
    let values = json!({"tiers": [
        {"limit": 5, "window": "1s", "active": "infinite", "cooldown": "0s"},
        {"limit": 50, "window": "5s", "active": "5s", "cooldown": "15s"},
    ]});
    assert_eq!(tiers["values"], values);
    assert_eq!(unlimited["values"], json!({"unlimited": true}));
}

#[test]
fn id_may_begin_like_an_option() {
    let told = json_of(&check(&["--json", "--", "Partners", "--odd"]), 0);
    assert_eq!(told["clients"][0]["override"]["id"], "--odd");
}

/// Expects a mistake in a file, in text and in JSON, told with its place.
#[track_caller]
fn expect_mistake(args: &[&str], file: &str, line: u64, limit: &str, id: Option<&str>, text: &str) {
    let place = format!("{file}:{line}: limit `{limit}`: ");
    expect_refusal(&run(args), 1, &["tollgate: ", &place, text]);
    let told = json_of(&run(&[args, &JSON].concat()), 1);
    let message = told["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with(&place) && message.contains(text));
    let error = json!({"message": message, "file": file, "line": line, "limit": limit, "id": id});
    assert_eq!(told, json!({"ok": false, "error": error}));
}

#[test]
fn mistakes_are_told_with_their_place() {
    let bad = "a: {burst: 1, count: 1,\n    perod: 1s}\n";
    let (good, defaults) = (file("yml", DEFAULTS), file("yml", bad));
    let args = ["--limits", &*defaults];
    expect_mistake(&args, &defaults, 2, "a", None, "did you mean `period`?");

    let id = "www.example.com";
    let bad = format!("- Domain:\n    unlimited: true\n    ids:\n      - {id}\n");
    let overrides = file("yml", &bad);
    let args = ["--limits", &*good, "--overrides", &overrides];
    let text = "`www.example.com` is not an id in the format domain";
    expect_mistake(&args, &overrides, 4, "Domain", Some(id), text);
}

#[test]
fn files_that_cannot_be_read_are_told_apart() {
    let nowhere = ["--limits", "/nowhere/limits.yml"];
    expect_refusal(
        &run(&nowhere),
        2,
        &["/nowhere/limits.yml: ", "cannot read it"],
    );
    let told = json_of(&run(&[&nowhere[..], &JSON].concat()), 2);
    assert_eq!(told["error"]["file"], "/nowhere/limits.yml");
    assert_eq!(told["error"]["line"], json!(null));
    let text = file("txt", DEFAULTS);
    expect_refusal(
        &run(&["--limits", &text]),
        1,
        &["its name has no known extension: use .yml"],
    );
}

#[test]
fn what_is_asked_for_has_to_be_there() {
    let unknown = ["Adress", "10.0.0.1"];
    expect_refusal(
        &check(&unknown),
        1,
        &["unknown limit `Adress`: known are Account, Address, "],
    );
    let told = json_of(&check(&[&JSON[..], &unknown].concat()), 1);
    assert_eq!(
        (&told["error"]["limit"], &told["error"]["id"]),
        (&json!("Adress"), &json!("10.0.0.1"))
    );
    let bad = ["limit `Address`: `10.0.0.256` is not an id in the format ipAddress"];
    // A good one before it does not help.
    expect_refusal(
        &check(&["Address", "10.0.0.1", "Address", "10.0.0.256"]),
        1,
        &bad,
    );
    expect_refusal(&check(&["Partners", ""]), 1, &["limit `Partners`: "]);
}

#[test]
fn warnings_are_on_standard_error() {
    let tiers = "[{limit: 5, window: 1s}, {limit: 50, window: 5s, active: 5s, cooldown: 1s}]";
    let defaults = file("yml", format!("Bursts: {{tiers: {tiers}}}\n"));
    let output = run(&["--limits", &defaults]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        stdout(&output),
        "limits: 1\n  Bursts: at most 55 in any 1s\noverrides: 0\n"
    );
    assert!(stderr(&output).contains("shorter than its window"));
}

#[test]
fn wrong_calls_are_refused() {
    let cases: [(&[&str], &str); 6] = [
        (&[], "--limits <FILE>"),
        (&["--overrides", "o.yml"], "--limits <FILE>"),
        (&["--limits"], "a value is required"),
        (
            &["--limits", "d.yml", "--limits", "e.yml"],
            "cannot be used multiple times",
        ),
        (
            &["--limits", "d.yml", "Address"],
            "`Address` has no id after it",
        ),
        (
            &["--limits", "d.yml", "Partners", "--odd"],
            "unexpected argument '--odd'",
        ),
    ];
    for (args, reason) in cases {
        expect_refusal(&run(args), 2, &[reason]);
    }
}
