//! Logs of all formats are read, with the right client for each line.

use std::{collections::BTreeSet, io::Write};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use tollgate::testing::random::Random;

use crate::{
    program::{expect_refusal, file, json_of, replay, run, run_with, stderr, stdout},
    traffic::{day, log, request},
};

/// The second request of a client is denied.
pub(crate) const ONE_PER_HOUR: &str = "requests: 1/h\n";

/// Replays a log, and returns the figures of the limit.
fn replayed(log: &[u8], more: &[&str]) -> Value {
    let output = replay(ONE_PER_HOUR, more, log);
    let report = json_of(&output);
    assert_eq!(report["unreadable"], 0, "{}", stderr(&output));
    report["limits"]["requests"].clone()
}

/// Expects that a line, read twice, is of one client at this instant.
#[track_caller]
fn expect(line: &str, more: &[&str], first: &str) {
    let denied = json!([{"id": "203.0.113.7", "denied": 1, "first": first}]);
    let report = replayed(format!("{line}\n{line}\n").as_bytes(), more);
    assert_eq!(report["most_denied"], denied, "{line}");
}

/// Lines of all formats, each after the instant of its request.
const LINES: &str = r#"
2026-11-01T01:00:05Z 203.0.113.7 - - [31/Oct/2026:23:30:05 -0130] "GET / HTTP/1.1" 200 12
2026-11-01T01:00:05Z    203.0.113.7 - - [01/Nov/2026:01:00:05] "GET / HTTP/1.1" 200 12
2026-11-01T01:00:05.25Z 203.0.113.7 - - [01/Nov/2026:01:00:05.250 +0000] "GET / HTTP/1.1" 200 12
2026-11-01T01:00:05Z 203.0.113.7 - - [2026-11-01T02:00:05+01:00] "GET / HTTP/1.1" 200 12
2026-11-01T01:00:05Z 203.0.113.7:4000 - alice smith [01/Nov/2026:01:00:05 +0000] "GET /\"x\" HTTP/1.1" 200 - "https://a/" "b \"c\""
2026-11-01T01:00:05Z www.example.com:443 203.0.113.7 - - [01/Nov/2026:01:00:05 +0000] "GET / HTTP/1.1" 200 12
2026-11-01T01:00:05Z {"time_local":"01/Nov/2026:01:00:05 +0000","remote_addr":"203.0.113.7","request":"GET / HTTP/1.1"}
2026-11-01T01:00:05.25Z {"msec":"1793494805.250","remote_addr":"203.0.113.7"}
2026-11-01T01:00:05Z {"time_iso8601":"2026-11-01T02:00:05+01:00","remote_addr":"203.0.113.7"}
2026-11-01T01:00:05Z {"time":"2026-11-01T01:00:05","remote_addr":"203.0.113.7"}
2026-11-01T01:00:05.524102Z {"ts":1793494805.5241024,"request":{"remote_ip":"10.0.0.1","client_ip":"203.0.113.7","host":"10.0.0.2"}}
2026-11-01T01:00:05Z {"ts":"2026/11/01 01:00:05","request":{"remote_addr":"203.0.113.7:41342"}}
2026-11-01T01:00:05.25Z {"ClientAddr":"203.0.113.7:10884","ClientHost":"6.6.6.6","StartUTC":"2026-11-01T01:00:05.25Z","time":"2026-11-01T01:00:09Z"}
2026-11-01T01:00:05Z {"date":"2026-11-01","time":"01:00:05","c-ip":"203.0.113.7","x-forwarded-for":"6.6.6.6"}
2026-11-01T01:00:05Z {"ts":1.793494805e9,"ip":"203.0.113.7"}
2026-11-01T01:00:05.25Z {"ts":"179349480525E+1","ip":"203.0.113.7"}
2026-11-01T01:00:05Z 2026-11-01T01:00:06.000Z 203.0.113.7 - - [01/Nov/2026:01:00:05 +0000] "GET / HTTP/1.1" 200 12
2026-11-01T01:00:05Z nginx-1  | 203.0.113.7 - - [01/Nov/2026:01:00:05 +0000] "GET / HTTP/1.1" 200 12
2026-11-01T01:00:05Z 2026-11-01T01:00:06.1Z stdout F 203.0.113.7 - a b [01/Nov/2026:01:00:05 +0000] "GET / HTTP/1.1" 200 12
2026-11-01T01:00:05Z <190>Nov  1 01:00:06 10.0.0.5 nginx: a.example 203.0.113.7 - alice [01/Nov/2026:01:00:05 +0000] "GET / HTTP/1.1" 200
2026-11-01T01:00:05Z {"log":"203.0.113.7 - - [01/Nov/2026:01:00:05 +0000] \"GET / HTTP/1.1\" 200 12\n","stream":"stdout","time":"2026-11-01T01:00:06Z"}
2026-11-01T01:00:05Z {"message":"10.0.0.9 203.0.113.7 - - [01/Nov/2026:01:00:05 +0000] \"GET / HTTP/1.1\" 200 12","@timestamp":"2026-11-01T01:00:06Z"}
2026-11-01T01:00:05Z {"log":"6.6.6.6 - - [31/Oct/2026:01:00:05 +0000] \"GET / HTTP/1.1\" 200 12","ip":"203.0.113.7","time":"2026-11-01T01:00:05Z"}
2026-11-01T01:00:05Z {"log":"started","time":"2026-11-01T01:00:05Z","ip":"203.0.113.7"}
"#;

#[test]
fn each_format_is_read() {
    for line in LINES.trim().lines() {
        let (first, line) = line.split_once(' ').unwrap();
        expect(line, &[], first);
        expect(&format!("\u{feff}{line}\r"), &[], first);
    }
}

#[test]
fn fields_have_names() {
    let line = r#"{"when":{"ms":1793494805250},"who":"203.0.113.7","ip":"10.0.0.1"}"#;
    for more in [["--key", "who"], ["--address", "who"]] {
        let more = [&["--time", "when.ms"], &more[..]].concat();
        expect(line, &more, "2026-11-01T01:00:05.25Z");
    }
    let dotted = r#"{"when.ms":1793494805250000,"headers":{"X-Client":["203.0.113.7","x"]}}"#;
    let more = ["--time", "when.ms", "--key", "headers.X-Client"];
    expect(dotted, &more, "2026-11-01T01:00:05.25Z");
    for start in ["10.0.0.1", "a.example 10.0.0.1"] {
        let user =
            format!("{start} - 203.0.113.7 [01/Nov/2026:01:00:05 +0000] \"GET / HTTP/1.1\" 200 1");
        expect(&user, &["--key", "user"], "2026-11-01T01:00:05Z");
    }
    let extended = "#Fields: date time c-ip cs-username\n2026-11-01 01:00:05 10.0.0.1 203.0.113.7";
    for key in ["user", "cs-username"] {
        expect(extended, &["--key", key], "2026-11-01T01:00:05Z");
    }
}

/// A log of six lines after this start. `{n}` is the number of the line.
fn six(start: &str, line: &str) -> String {
    let lines = (1..=6).map(|n| line.replace("{n}", &n.to_string()) + "\n");
    start.to_owned() + &lines.collect::<String>()
}

#[track_caller]
fn expect_clients(log: &str, more: &[&str], clients: u64) {
    let report = json_of(&run_with(
        &[&["suggest", "--json"], more].concat(),
        log.as_bytes(),
    ));
    assert_eq!(report["clients"], clients, "{log}");
    let first =
        replayed(&[log, log].concat().into_bytes(), more)["most_denied"][0]["first"].clone();
    assert!(
        first.as_str().unwrap().starts_with("2026-10-10T"),
        "{first}: {log}"
    );
}

/// Lines in which `{n}` is the number of the client.
const CLIENTS: &str = r#"
127.0.1.1:80 203.0.113.{n} - - [10/Oct/2026:13:55:3{n} +0000] "GET / HTTP/1.1" 200 5 "-" "x"
6.6.6.6 203.0.113.{n} - - [10/Oct/2026:13:55:3{n} +0000] "GET / HTTP/1.1" 200 5 "-" "x"
https 2026-10-10T13:55:3{n}.012345Z app/shop/50dc 203.0.113.{n}:41817 10.0.0.1:80 0.0 0.1 0.0 200 200 34 366 "GET https://shop.example:443/ HTTP/1.1" "curl"
2026-10-10T13:55:3{n}.012345Z my-elb 203.0.113.{n}:41817 10.0.0.1:80 0.0 0.1 0.0 200 200 34 366 "GET http://a.example:80/ HTTP/1.1"
{"time": 0.003, "timestamp": "2026-10-10T13:55:3{n}Z", "remote_addr": "203.0.113.{n}"}
{"time": "2026-10-10T13:55:3{n}Z", "x_real_ip": "203.0.113.{n}", "host": "10.0.0.9"}
{"start_time": "2026-10-10T13:55:3{n}.000Z", "downstream_local_address": "10.0.0.2:8443", "downstream_remote_address": "203.0.113.{n}:41234"}
"#;

const IIS: &str = "#Software: Microsoft Internet Information Services 10.0\n#Date: 2026-10-10 13:55:30\n\
                   #Fields: date time s-ip cs-method cs-uri-stem s-port c-ip cs(User-Agent) sc-status\n";

const CLOUDFRONT: &str =
    "#Version: 1.0\n#Fields: date time x-edge-location c-ip cs-method cs(Host) cs-uri-stem\n";

/// The figures of the limit `logins`, for `POST /login`.
fn logins(log: &str, more: &[&str]) -> (Value, String) {
    let rules = file("yml", "- {limit: logins, path: /login, method: POST}\n");
    let output = replay("logins: 1/h\n", &[&["--rules", &rules], more].concat(), log);
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    let requests = report["limits"]["logins"]["requests"].clone();
    (requests, stderr(&output).to_owned())
}

#[test]
fn method_and_path_have_names() {
    let cloudfront = r#"{"date":"2026-05-29","time":"10:00:00","c-ip":"192.0.2.12","cs-method":"POST","cs-uri-stem":"/login"}"#;
    assert_eq!(logins(cloudfront, &[]).0, 1);
    let line = r#"{"EdgeStartTimestamp":1780000000000000000,"ClientIP":"192.0.2.12","Verb":"POST","Target":"/login?a"}"#;
    let log = format!("{line}\n{line}\n");
    let mut more = vec!["--time", "EdgeStartTimestamp", "--address", "ClientIP"];
    for (field, name) in [("path", "Target"), ("method", "Verb")] {
        let (requests, errors) = logins(&log, &more);
        assert_eq!(requests, 0);
        let remedy = format!("no line has a {field}: name its field with --{field}");
        assert!(errors.lines().last().unwrap().contains(&remedy), "{errors}");
        let option = format!("--{field}");
        more.extend([&*option.leak(), name]);
    }
    assert_eq!(logins(&log, &more).0, 2);
}

#[test]
fn field_that_some_rule_needs_and_no_line_has_is_noted() {
    let line = r#"{"ts":1780000000,"ip":"192.0.2.12","Target":"/login"}"#;
    let rules = file("yml", "- {limit: all}\n- {limit: logins, path: /login}\n");
    let output = replay("all: 1/h\nlogins: 1/h\n", &["--rules", &rules], line);
    assert_eq!(json_of(&output)["limits"]["all"]["requests"], 1);
    let errors = stderr(&output);
    assert!(
        errors.contains("no line has a path: name its field with --path"),
        "{errors}"
    );
}

/// Lines of HAProxy, which have no known form.
const HAPROXY: &str = r#"Feb  6 12:14:14 lb haproxy[14389]: 203.0.113.1:33317 [06/Feb/2026:12:14:14.655] http-in static/srv1 10/0/30 200 2750 {1wt.eu} {} "POST /login?a HTTP/1.1"
Feb  6 12:14:15 lb haproxy[14389]: 203.0.113.1:33318 [06/Feb/2026:12:14:15.655] http-in static/srv1 10/0/30 200 2750 "GET /login HTTP/1.1"
Feb  6 12:14:15 lb haproxy[14389]: Proxy http-in started.
"#;

#[test]
fn other_forms_are_read_by_a_pattern() {
    let output = run_with(&["suggest"], HAPROXY.as_bytes());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("or describe its form with --pattern"),
        "{}",
        stderr(&output)
    );
    let pattern = [
        "--pattern",
        r#": (?<address>\S+) \[(?<time>[^\]]+)\] (?<frontend>\S+) .*"(?<method>\S+) (?<path>\S+)"#,
    ];
    for key in ["ip", "frontend"] {
        let output = replay(
            ONE_PER_HOUR,
            &[&pattern[..], &["--key", key]].concat(),
            HAPROXY,
        );
        let report = json_of(&output);
        assert_eq!(
            (&report["lines"], &report["unreadable"]),
            (&json!(3), &json!(1))
        );
        assert!(stderr(&output).contains("standard input:3: it does not match --pattern"));
        let requests = &report["limits"]["requests"];
        assert_eq!(
            (&requests["requests"], &requests["clients"]),
            (&json!(2), &json!(1))
        );
        let first = &requests["most_denied"][0]["first"];
        assert_eq!(first, "2026-02-06T12:14:15.655Z");
    }
    assert_eq!(logins(HAPROXY, &pattern).0, 1);
    expect_refusal(
        &run(&["suggest", "--pattern", "(?<time>"]),
        2,
        &["--pattern <REGEX>", "unclosed group"],
    );
}

#[test]
fn groups_of_a_pattern_are_fields() {
    let line = "2026-11-01T01:00:05Z|203.0.113.7|6.6.6.6";
    let pattern = ["--pattern", r"(?<when>\S+)\|(?<who>.+)\|(?<address>.+)"];
    let more = ["--time", "when", "--address", "who"];
    expect(
        line,
        &[&pattern[..], &more].concat(),
        "2026-11-01T01:00:05Z",
    );
}

#[test]
fn client_of_each_line_is_found() {
    for line in CLIENTS.trim().lines() {
        expect_clients(&six("", line), &[], 6);
    }
    let line = "2026-10-10 13:55:3{n} 10.0.0.9 GET /items 443 203.0.113.{n} Mozilla/5.0+(X11) 200";
    expect_clients(&six(IIS, line), &[], 6);
    let line = "2026-10-10\t13:55:3{n}\tFRA 50\t2001:db8:0:{n}::7\tGET\td1.example\t/items";
    expect_clients(&six(CLOUDFRONT, line), &[], 6);
    let bracket = r#"203.0.113.1 - a [b [10/Oct/2026:13:55:31 +0000] "GET / HTTP/1.1" 200 5"#;
    expect_clients(&six("", bracket), &[], 1);
    expect_clients(&six("", bracket), &["--key", "user"], 1);
}

/// Lines with a list of addresses, or with one in the field `xff`.
const LISTS: &str = r#"
203.0.113.{n}, 10.0.0.1 - - [10/Oct/2026:13:55:31 +0000] "GET / HTTP/1.1" 200 5
"203.0.113.{n}, 10.0.0.1" - - [10/Oct/2026:13:55:31 +0000] "GET / HTTP/1.1" 200 5
a.example 203.0.113.{n}:80,10.0.0.1:90 - - [10/Oct/2026:13:55:31 +0000] "GET / HTTP/1.1" 200 5
{"ts": "2026-10-10T13:55:31Z", "xff": "203.0.113.{n}, 10.0.0.1"}
{"ts": "2026-10-10T13:55:31Z", "xff": ["203.0.113.{n}:80", "10.0.0.1"]}
"#;

#[test]
fn client_in_a_list_of_addresses_is_counted_from_the_right() {
    let extended = "#Fields: date time xff\n";
    let logs = LISTS.trim().lines().map(|line| six("", line));
    for log in logs.chain([six(extended, "2026-10-10 13:55:31 203.0.113.{n},+10.0.0.1")]) {
        let xff = ["--address", "xff"];
        expect_clients(&log, &[&xff[..], &["--hops", "2"]].concat(), 6);
        expect_clients(&log, &[&xff[..], &["--hops", "1"]].concat(), 1);
        for (hops, problem) in [
            (
                &[][..],
                "is a list: give the number of your proxies with --hops",
            ),
            (&["--hops", "3"], "fewer addresses than --hops"),
        ] {
            let args = [&["suggest", "--json"], &xff[..], hops].concat();
            let output = run_with(&args, log.as_bytes());
            assert_eq!(output.status.code(), Some(1), "{log}");
            let last = stderr(&output).lines().last().unwrap();
            assert!(last.contains(problem), "{last}");
        }
    }
}

#[test]
fn addresses_are_grouped_as_by_client_ip() {
    let addresses = [
        "2001:db8:1:2::1",
        "2001:db8:1:2:ffff::9",
        "2001:db8:1:3::1",
        "::ffff:192.0.2.1",
        "192.0.2.1",
        "64:ff9b::192.0.2.1",
    ];
    let log = log(&addresses.map(|ip| request(0, ip, "/")));
    for (key, requests, ids) in [
        ("ip", 6, &["192.0.2.1", "2001:db8:1:2::"][..]),
        ("/48", 3, &["2001:db8:1::/48"]),
        ("everyone", 6, &["everyone"]),
    ] {
        let report = replayed(log.as_bytes(), &["--key", key]);
        assert_eq!(report["requests"], requests, "{key}");
        let denied = report["most_denied"].as_array().unwrap();
        let denied: BTreeSet<_> = denied
            .iter()
            .map(|client| client["id"].as_str().unwrap())
            .collect();
        assert_eq!(denied, ids.iter().copied().collect());
    }
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn gzip_is_read_and_has_to_be_whole() {
    let text = log(&day(10, 4));
    let expected = replayed(text.as_bytes(), &[]);
    // Concatenated gzip members, as of rotated files, are one log.
    let (first, second) = text.split_at(text.len() / 2);
    let bytes = [gzip(first), gzip(second)].concat();
    assert_eq!(replayed(&bytes, &[]), expected);
    assert_eq!(replayed(b"", &[&file("log.gz", &bytes)]), expected);
    assert_eq!(replayed(text.as_bytes(), &["-"]), expected);
    for length in [2, 11, bytes.len() / 2, bytes.len() - 1] {
        let packed = file("gz", &bytes[..length]);
        expect_refusal(
            &run(&["suggest", &packed]),
            2,
            &[&packed, "cannot read it: "],
        );
    }
}

#[test]
fn requests_are_put_in_order_within_and_between_logs() {
    let mut requests = day(20, 3);
    let expected = replayed(log(&requests).as_bytes(), &[]);
    let mut numbers = Random(9);
    let (one, other): (Vec<_>, Vec<_>) = requests
        .iter()
        .cloned()
        .partition(|_| numbers.below(2) == 0);
    let (first, second) = requests.split_at(requests.len() / 2);
    for (one, other) in [(&*one, &*other), (second, first)] {
        let logs = [one, other].map(|requests| file("log", log(requests)));
        assert_eq!(replayed(b"", &[&logs[0], &logs[1]]), expected);
    }
    // Within a block, the later requests come first. Those of one second are equal, but for their clients.
    requests.chunks_mut(500).for_each(<[_]>::reverse);
    assert_eq!(replayed(log(&requests).as_bytes(), &[]), expected);
}

#[test]
fn request_that_is_far_too_late_counts_at_the_latest_instant() {
    let mut requests: Vec<_> = (0..20_000)
        .map(|i| request(i / 2, "203.0.113.7", "/"))
        .collect();
    requests.push(request(5, "203.0.113.8", "/"));
    let output = replay(ONE_PER_HOUR, &[], log(&requests));
    assert_eq!(json_of(&output)["limits"]["requests"]["clients"], 2);
    let errors = stderr(&output);
    assert!(
        errors.starts_with("requests far out of order, ") && errors.ends_with(": 1\n"),
        "{errors}"
    );
    let far = log(&[
        request(2_700_000_000, "203.0.113.9", "/"),
        request(0, "203.0.113.7", "/"),
        request(0, "203.0.113.7", "/"),
    ]);
    let report = json_of(&replay(ONE_PER_HOUR, &[], far));
    assert_eq!(report["limits"]["requests"]["denied"], 1);
}
