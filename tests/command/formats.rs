//! The formats of logs.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::{
    program::{file, json, json_of, run, run_with, stderr},
    traffic::{day, log},
};

const LIMITS: &str = "requests: {burst: 1, count: 1, period: 1h}\n";

/// Two requests of one client, so that the second tells the time of the first.
fn expect(lines: [&str; 2], more: &[&str], first: &str) {
    let (limits, log) = (file("yml", LIMITS), file("log", lines.join("\n")));
    let args = [&["replay", "--limits", &limits, "--json", &log], more].concat();
    let output = run(&args);
    let told = json_of(&output);
    assert_eq!(told["unreadable"], 0, "{}", stderr(&output));
    let denied = json!([{"id": "203.0.113.7", "denied": 1, "first": first}]);
    assert_eq!(
        told["limits"]["requests"]["most_denied"], denied,
        "{lines:?}"
    );
}

#[test]
fn each_format_is_read() {
    let common = r#"203.0.113.7 - - [31/Oct/2026:23:30:05 -0130] "GET / HTTP/1.1" 200 12"#;
    expect([common, common], &[], "2026-11-01T01:00:05Z");
    let marked = format!("\u{feff}{common}");
    expect(
        [&marked, &format!("  {common}\r")],
        &[],
        "2026-11-01T01:00:05Z",
    );
    let combined = r#"203.0.113.7 - alice smith [01/Nov/2026:01:00:05 +0000] "GET /\"x\" HTTP/1.1" 200 - "https://a/" "b \"c\"""#;
    expect([combined, combined], &[], "2026-11-01T01:00:05Z");
    let hosts = r#"www.example.com:443 203.0.113.7 - - [01/Nov/2026:01:00:05 +0000] "GET / HTTP/1.1" 200 12"#;
    expect([hosts, hosts], &[], "2026-11-01T01:00:05Z");
    let nginx = r#"{"time_local":"01/Nov/2026:01:00:05 +0000","remote_addr":"203.0.113.7","request":"GET / HTTP/1.1","status":"200"}"#;
    expect([nginx, nginx], &[], "2026-11-01T01:00:05Z");
    let nginx = r#"{"msec":"1793494805.250","remote_addr":"203.0.113.7"}"#;
    expect([nginx, nginx], &[], "2026-11-01T01:00:05.25Z");
    let nginx = r#"{"time_iso8601":"2026-11-01T02:00:05+01:00","remote_addr":"203.0.113.7"}"#;
    expect([nginx, nginx], &[], "2026-11-01T01:00:05Z");
    let caddy = r#"{"level":"info","ts":1793494805.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.1","remote_port":"41342","client_ip":"203.0.113.7","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/","headers":{"User-Agent":["curl/7.82.0"]}},"status":200}"#;
    expect([caddy, caddy], &[], "2026-11-01T01:00:05.524102Z");
    let old_caddy = r#"{"ts":"2026/11/01 01:00:05","request":{"remote_addr":"203.0.113.7:41342"}}"#;
    expect([old_caddy, old_caddy], &[], "2026-11-01T01:00:05Z");
    let traefik = r#"{"ClientHost":"203.0.113.7","RequestMethod":"GET","RequestPath":"/","StartUTC":"2026-11-01T01:00:05.25Z","time":"2026-11-01T01:00:09Z"}"#;
    expect([traefik, traefik], &[], "2026-11-01T01:00:05.25Z");
}

#[test]
fn fields_have_names() {
    let line = r#"{"when":{"ms":1793494805250},"who":"203.0.113.7","ip":"10.0.0.1"}"#;
    expect(
        [line, line],
        &["--time", "when.ms", "--key", "who"],
        "2026-11-01T01:00:05.25Z",
    );
    expect(
        [line, line],
        &["--time", "when.ms", "--address", "who"],
        "2026-11-01T01:00:05.25Z",
    );
    let dotted = r#"{"when.ms":1793494805250000,"headers":{"X-Client":["203.0.113.7","x"]}}"#;
    expect(
        [dotted, dotted],
        &["--time", "when.ms", "--key", "headers.X-Client"],
        "2026-11-01T01:00:05.25Z",
    );
    let user = r#"10.0.0.1 - 203.0.113.7 [01/Nov/2026:01:00:05 +0000] "GET / HTTP/1.1" 200 1"#;
    expect([user, user], &["--key", "user"], "2026-11-01T01:00:05Z");
    let user =
        r#"a.example 10.0.0.1 - 203.0.113.7 [01/Nov/2026:01:00:05 +0000] "GET / HTTP/1.1" 200 1"#;
    expect([user, user], &["--key", "user"], "2026-11-01T01:00:05Z");
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn gzip_is_read_from_files_and_standard_input() {
    let text = log(&day(10, 4));
    let limits = file("yml", LIMITS);
    let expected: Value = json(&["replay", "--limits", &limits, "--json", &file("log", &text)]);
    // Concatenated members are one log, as of rotated files.
    let (first, second) = text.split_at(text.len() / 2);
    let bytes = [gzip(first), gzip(second)].concat();
    let packed = file("log.gz", &bytes);
    assert_eq!(
        json(&["replay", "--limits", &limits, "--json", &packed]),
        expected
    );
    assert_eq!(
        json_of(&run_with(
            &["replay", "--limits", &limits, "--json"],
            &bytes
        )),
        expected
    );
}

#[test]
fn gzip_that_ends_early_cannot_be_read() {
    let bytes = gzip(&log(&day(10, 4)));
    let limits = file("yml", LIMITS);
    for length in [2, 3, 11, bytes.len() / 2, bytes.len() - 1] {
        let packed = file("gz", &bytes[..length]);
        let output = run(&["replay", "--limits", &limits, "--json", &packed]);
        crate::program::expect_refusal(&output, 2, &[&packed, "cannot read it: "]);
    }
}
