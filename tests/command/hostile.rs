//! Logs that nobody would write on purpose. Nothing panics, and the rest of a log counts.

use serde_json::json;

use crate::{
    program::{file, json_of, run, run_with, stderr},
    traffic::Numbers,
};

const GOOD: &str = r#"203.0.113.7 - - [01/Nov/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1"#;

/// Reads these lines after a good one, and expects the reason for the first of them.
#[track_caller]
fn expect_unreadable(lines: &[u8], reason: &str) {
    let limits = file("yml", "requests: {burst: 9, count: 1, period: 1s}\n");
    let log = file("log", [GOOD.as_bytes(), b"\n", lines, b"\n"].concat());
    for args in [
        &["replay", "--limits", &limits, "--json", &log][..],
        &["suggest", "--json", &log],
    ] {
        let output = run(args);
        let told = json_of(&output);
        let clients = match told["limits"] {
            json!(null) => &told["clients"],
            _ => &told["limits"]["requests"]["requests"],
        };
        assert_eq!(*clients, 1, "{told}");
        let message = stderr(&output);
        assert!(
            message.contains(&format!("{log}:2: {reason}")),
            "{reason}: {message}"
        );
    }
}

#[test]
fn times_out_of_range_are_unreadable() {
    for (time, reason) in [
        ("01/Jan/1969:00:00:00 +0000", "its time is before 1970"),
        ("01/Jan/1970:00:00:00 +0001", "its time is before 1970"),
        ("01/Jan/9999:00:00:00 +0000", "its time is after 2112"),
        ("32/Jan/2026:00:00:00 +0000", "its time cannot be read"),
        ("01/Foo/2026:00:00:00 +0000", "its time cannot be read"),
        ("01/Jan/2026:00:00:00 *0000", "its time cannot be read"),
        ("", "its time cannot be read"),
    ] {
        expect_unreadable(
            format!("203.0.113.7 - - [{time}] \"GET / HTTP/1.1\" 200 1").as_bytes(),
            reason,
        );
    }
    for (time, reason) in [
        ("-1.5", "its time is before 1970"),
        ("\"1969-12-31T23:59:59Z\"", "its time is before 1970"),
        ("99999999999999999999999", "its time is after 2112"),
        (
            "9999999999999999999999999999999999999999999999999",
            "its time cannot be read",
        ),
        ("1e9", "its time cannot be read"),
        ("\"soon\"", "its time cannot be read"),
        ("{}", "its time cannot be read"),
        ("null", "its time cannot be read"),
    ] {
        expect_unreadable(
            format!("{{\"ts\":{time},\"ip\":\"203.0.113.7\"}}").as_bytes(),
            reason,
        );
    }
    expect_unreadable(
        b"{\"ip\":\"203.0.113.7\"}",
        "it has no time: name its field with --time",
    );
}

#[test]
fn lines_without_a_form_are_unreadable() {
    let deep = format!("{{\"a\":{}", "[".repeat(60_000));
    let long = "x".repeat(1_000_000);
    let address = r#"host.example - - [01/Nov/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1"#;
    for (line, reason) in [
        (
            b"".as_slice(),
            "it is neither in Common Log Format nor JSON",
        ),
        (b"{", "it is neither"),
        (b"{}", "it has no time"),
        (b"[1]", "it is neither"),
        (b" [", "it is neither"),
        (b"\x00\xff\xfe [\xff] \"\xff\"", "its time cannot be read"),
        (deep.as_bytes(), "it is neither"),
        (long.as_bytes(), "it is longer than 64 KiB"),
        (address.as_bytes(), "it has no client address"),
        (
            b"\x1b[31mred",
            "it is neither in Common Log Format nor JSON: \\u{1b}[31mred",
        ),
    ] {
        expect_unreadable(line, reason);
    }
}

#[test]
fn far_future_does_not_stop_the_clock_of_the_others() {
    let limits = file("yml", "requests: {burst: 1, count: 1, period: 1s}\n");
    let mut lines = vec![GOOD.replace("2026", "2111")];
    lines.extend((0..50).map(|second| GOOD.replace("00:00:00", &format!("00:00:{second:02}"))));
    let output = run_with(
        &["replay", "--limits", &limits, "--json"],
        lines.join("\n").as_bytes(),
    );
    let told = json_of(&output);
    assert_eq!(
        (&told["lines"], &told["limits"]["requests"]["denied"]),
        (&json!(51), &json!(0))
    );
    assert_eq!(stderr(&output), "");
}

#[test]
fn binary_files_are_counted() {
    let mut numbers = Numbers(77);
    for start in [b"".as_slice(), b"\x7fELF", b"{", b"\x1f\x8a"] {
        let mut bytes = start.to_vec();
        bytes.extend((0..300_000).map(|_| u8::try_from(numbers.below(256)).unwrap()));
        let newlines = bytes.split(|byte| *byte == b'\n').count();
        let lines = newlines - usize::from(bytes.ends_with(b"\n"));
        let (log, limits) = (file("bin", &bytes), file("yml", "a: {blocked: true}\n"));
        let told = json_of(&run(&["replay", "--limits", &limits, "--json", &log]));
        assert_eq!(
            (&told["lines"], &told["unreadable"]),
            (&json!(lines), &json!(lines))
        );
        let told = json_of(&run(&["suggest", "--json", &log]));
        assert_eq!(told, json!({"clients": 0, "recommendations": []}));
    }
}

#[test]
fn mutated_lines_never_panic() {
    let mut numbers = Numbers(5);
    let seeds = [
        GOOD.as_bytes(),
        br#"{"ts":1793494805.52,"request":{"client_ip":"203.0.113.7","method":"GET","uri":"/a?b"},"a":["b",{"c":null}]}"#,
    ];
    let mut log = Vec::new();
    for round in 0..20_000 {
        let mut line = seeds[round % 2].to_vec();
        for _ in 0..=numbers.below(4) {
            let at = usize::try_from(numbers.below(line.len() as u64)).unwrap();
            match numbers.below(3) {
                0 => line[at] = u8::try_from(numbers.below(256)).unwrap(),
                1 => drop(line.remove(at)),
                _ => line.insert(
                    at,
                    b"\"\\{}[]:- 9"[usize::try_from(numbers.below(11)).unwrap() % 10],
                ),
            }
        }
        line.retain(|byte| *byte != b'\n');
        log.extend(line);
        log.push(b'\n');
    }
    let (log, limits) = (
        file("log", log),
        file("yml", "a: {burst: 3, count: 1, period: 1s}\n"),
    );
    let rules = file(
        "yml",
        "- {limit: a, path: /a, method: [GET, POST]}\n- {limit: a, key: request.uri}\n",
    );
    let told = json_of(&run(&[
        "replay", "--limits", &limits, "--rules", &rules, "--json", &log,
    ]));
    assert_eq!(told["lines"], 20_000);
    let told = json_of(&run(&["suggest", "--json", &log]));
    assert!(told["clients"].as_u64() > Some(5), "{told}");
}
