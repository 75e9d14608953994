//! `tollgate check` finds mistakes in files, and shows which limit a client gets.

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
Daily: {quota: 1000, per: day, time_zone: America/Los_Angeles}
";

const OVERRIDES: &str = "
- Address:
    burst: 30
    count: 20
    period: 1s
    ids: [{id: '2001:0db8::', comment: our own probe}, 10.0.0.2, 198.51.100.0/24]
- Range: {unlimited: true, ids: ['2001:db8::/48']}
- Account: {blocked: true, ids: [{id: 666, comment: stolen key}]}
- Partners: {burst: 1, count: 1, period: 1s, ids: [acme, --odd]}
";

const JSON: [&str; 1] = ["--json"];

/// Runs it with [`DEFAULTS`], [`OVERRIDES`] and more arguments.
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
    assert_eq!(stderr(output), "");
    program::json_with_code(output, code)
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
        "limits: 10\n  in shadow mode: Range\n  blocked: Partners\n  unlimited: Monitoring\n  \
         without values: Account\n  Address: at most 29 in any 1s\n  Bursts: at most 55 in any 1s\n  \
         Daily: at most 3000 in any 24h0m0s\n  Domain: at most 99 in any 168h0m0s\n  Logins: at most 5 in any 15m0s\n  Plan: at most 2000 in any 672h0m0s\n  \
         Range: at most 999 in any 3h0m0s\noverrides: 7\n  blocked: 1\n  unlimited: 1\n",
    );
    let summed = json!({
        "ok": true,
        "limits": {
            "count": 10, "shadow": ["Range"], "blocked": ["Partners"], "unlimited": ["Monitoring"],
            "not_limited": ["Account"],
            "bounds": {
                "Address": {"most": 29, "within": "1s"}, "Bursts": {"most": 55, "within": "1s"},
                "Daily": {"most": 3000, "within": "24h0m0s"},
                "Domain": {"most": 99, "within": "168h0m0s"}, "Logins": {"most": 5, "within": "15m0s"},
                "Plan": {"most": 2000, "within": "672h0m0s"}, "Range": {"most": 999, "within": "3h0m0s"},
            },
        },
        "overrides": {"count": 7, "blocked": 1, "unlimited": 1},
    });
    assert_eq!(json_of(&check(&JSON), 0), summed);
}

/// The request, and the lines of the answer.
const CLIENTS: [([&str; 2], &str); 7] = [
    (
        ["Address", "2001:DB8:0::"],
        "limit: 20 per 1s, 30 at once\n  at most: 49 in any 1s\n  from: the override for `2001:0db8::` (our own probe)\n  \
         bucket: 1:2001:db8::",
    ),
    (
        ["Address", "198.51.100.7"],
        "limit: 20 per 1s, 30 at once\n  at most: 49 in any 1s\n  from: the override for `198.51.100.0/24`\n  \
         bucket: 1:198.51.100.7",
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
        ["Account", "7"],
        "limit: not limited\n  from: neither a default nor an override\n  bucket: 6:7",
    ),
    (
        ["Daily", "x"],
        "limit: 1000 per calendar day in America/Los_Angeles\n  at most: 3000 in any 24h0m0s\n  from: the default\n  \
         bucket: Daily~q:x",
    ),
    (
        ["Bursts", "x"],
        "limit: 5 per 1s for infinite, then 50 per 5s for 5s, cooldown 15s\n  at most: 55 in any 1s\n  from: the default\n  bucket: Bursts~t:x",
    ),
];

#[test]
fn limit_of_a_client_is_printed_as_text() {
    let mut expected = Vec::new();
    for (asked, text) in CLIENTS {
        expected.push(format!("{} {}\n  {text}\n", asked[0], asked[1]));
        expect_text(&check(&asked), &expected[expected.len() - 1]);
    }
    let all = CLIENTS.map(|(asked, _)| asked);
    expect_text(&check(&all.concat()), &expected.concat());
}

#[test]
fn limit_of_a_client_is_printed_as_json() {
    let asked = ["Address", "10.0.0.2", "Range", "2001:db8:1::1"];
    let report = json_of(&check(&[&JSON, &asked[..]].concat()), 0);
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
    assert_eq!(report, json!({"ok": true, "clients": [address, range]}));
}

/// Expects these mistakes, in text and in JSON.
#[track_caller]
fn expect_mistakes(args: &[&str], code: i32, expected: &[(Value, &str)]) {
    let texts: Vec<_> = expected.iter().map(|(_, text)| *text).collect();
    expect_refusal(&run(args), code, &texts);
    let report = json_of(&run(&[args, &JSON].concat()), code);
    assert_eq!(
        (&report["ok"], report["errors"].as_array().unwrap().len()),
        (&json!(false), expected.len())
    );
    for (mut error, (mut location, text)) in std::iter::zip(
        report["errors"].as_array().unwrap().clone(),
        expected.iter().cloned(),
    ) {
        let message = error["message"].take();
        assert!(message.as_str().unwrap().contains(text), "{message}");
        location["message"] = json!(null);
        assert_eq!(error, location);
    }
}

#[test]
fn all_mistakes_are_printed_with_their_positions() {
    let defaults = file(
        "yml",
        "a: {burst: 1, count: 1,\n    perod: 1s}\nb: 5 per fortnight\nDomain: {id: domain, unlimited: true}\n",
    );
    let overrides = file(
        "yml",
        "- Domain:\n    blocked: true\n    ids:\n      - www.example.com\n",
    );
    let location = |file: &str, line: u64, limit: &str, id: Option<&str>| json!({"file": file, "line": line, "limit": limit, "id": id});
    expect_mistakes(
        &["--limits", &defaults, "--overrides", &overrides],
        1,
        &[
            (location(&defaults, 2, "a", None), "did you mean `period`?"),
            (
                location(&defaults, 3, "b", None),
                "`5 per fortnight` is not a limit",
            ),
            (
                location(&overrides, 4, "Domain", Some("www.example.com")),
                "`www.example.com` is not an id in the format domain",
            ),
        ],
    );
    let nowhere = json!({"file": "/nowhere/limits.yml", "line": null, "limit": null, "id": null});
    expect_mistakes(
        &["--limits", "/nowhere/limits.yml"],
        2,
        &[(nowhere, "/nowhere/limits.yml: cannot read it")],
    );
    let table = file(
        "toml",
        "[free.requests]\nburst = 1\ncount = 1\nperiod = '1s'\n",
    );
    expect_refusal(
        &run(&["--limits", &table]),
        1,
        &["quote the whole name: `\"free.requests\"`"],
    );
}

#[test]
fn clients_that_are_asked_for_have_to_be_there() {
    let defaults = file("yml", DEFAULTS);
    let location =
        |limit: &str, id: &str| json!({"file": null, "line": null, "limit": limit, "id": id});
    // A valid one before them makes no difference.
    expect_mistakes(
        &[
            "--limits",
            &defaults,
            "Address",
            "10.0.0.1",
            "Adress",
            "10.0.0.1",
            "Address",
            "10.0.0.256",
        ],
        1,
        &[
            (
                location("Adress", "10.0.0.1"),
                "unknown limit `Adress`: known are Account, Address, ",
            ),
            (
                location("Address", "10.0.0.256"),
                "limit `Address`: `10.0.0.256` is not an id in the format ipAddress",
            ),
        ],
    );
}

#[test]
fn ids_are_escaped() {
    let id = "\u{1b}[31mred\u{202e}'s";
    let overrides = file(
        "yml",
        "- Partners: {blocked: true, ids: [{id: \"\\e[31mred\\u202e's\", comment: \"a\\eb\"}]}\n",
    );
    let defaults = file("yml", DEFAULTS);
    let output = run(&[
        "--limits",
        &defaults,
        "--overrides",
        &overrides,
        "Partners",
        id,
    ]);
    let shown = "\\u{1b}[31mred\\u{202e}'s";
    expect_text(
        &output,
        &format!(
            "Partners {shown}\n  limit: blocked\n  from: the override for `{shown}` (a\\u{{1b}}b)\n  bucket: Partners:{shown}\n"
        ),
    );
    let output = run(&["--limits", &defaults, "\u{1b}[31mred", "x"]);
    expect_refusal(&output, 1, &["unknown limit `\\u{1b}[31mred`"]);
}

#[test]
fn overrides_that_no_rule_meets_are_warned_of() {
    let defaults = file(
        "yml",
        "a: {id: ipAddress, burst: 1, count: 1, period: 1s}\nb: 1/s\nc: {id: ipv6RangeCIDR, burst: 1, count: 1, period: 1s}\n",
    );
    let overrides = file(
        "yml",
        "- a: {blocked: true, ids: ['2001:db8::1', '2001:db8:1::', 192.0.2.1, '::ffff:192.0.2.2', '2001:db8::/48', '2001:db8::7:0/112']}\n\
        - b: {blocked: true, ids: ['2001:db8:0:7::1', x]}\n- c: {blocked: true, ids: ['2001:db8::/48']}\n",
    );
    let output = run(&["--limits", &defaults, "--overrides", &overrides]);
    assert_eq!(output.status.code(), Some(0));
    let warnings: Vec<_> = stderr(&output).lines().collect();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(
        warnings[0].starts_with("limit `a`: ")
            && warnings[0].contains("the override for `2001:db8::1`: write `2001:db8::`")
    );
    assert!(warnings[1].contains("the override for `2001:db8::7:0/112`: write `2001:db8::`"));
    assert!(
        warnings[2].starts_with("limit `b`: ")
            && warnings[2].contains("`2001:db8:0:7::1`: write `2001:db8:0:7::`")
    );
}

#[test]
fn wrong_calls_are_refused() {
    let cases: [(&[&str], &str); 5] = [
        (&[], "--limits <FILE>"),
        (&["--overrides", "o.yml"], "--limits <FILE>"),
        (&["--limits"], "a value is required"),
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
