//! Logs that cannot be read, in part or at all, do not panic, and the rest of a log counts.

use tollgate::testing::random::Random;

use crate::{
    logs::ONE_PER_HOUR,
    program::{file, json_of, json_with_code, replay, run, run_with, stderr, stdout},
};

const GOOD: &str = r#"203.0.113.7 - - [01/Nov/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1"#;

/// Reads a line after a good one, and expects the reason for it.
#[track_caller]
fn expect_unreadable(line: &[u8], reason: &str) {
    let log = file("log", [GOOD.as_bytes(), b"\n", line, b"\n"].concat());
    let output = run(&["suggest", "--json", &log]);
    assert_eq!(json_of(&output)["clients"], 1, "{reason}");
    let message = stderr(&output);
    assert!(
        message.contains(&format!("{log}:2: {reason}")),
        "{reason}: {message}"
    );
}

/// Lines, each after the reason why it cannot be read.
const LINES: &str = r#"
its time is before 1970 | 203.0.113.7 - - [01/Jan/1969:00:00:00 +0000] "GET / HTTP/1.1" 200 1
its time is before 1970 | 203.0.113.7 - - [01/Jan/1970:00:00:00 +0001] "GET / HTTP/1.1" 200 1
its time is after 2112 | 203.0.113.7 - - [01/Jan/9999:00:00:00 +0000] "GET / HTTP/1.1" 200 1
its time cannot be read | 203.0.113.7 - - [32/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1
its time cannot be read | 203.0.113.7 - - [01/Jan/2026:00:00:00 *0000] "GET / HTTP/1.1" 200 1
its time cannot be read | 203.0.113.7 - - [] "GET / HTTP/1.1" 200 1
its time is before 1970 | {"ts":-1.5,"ip":"203.0.113.7"}
its time is after 2112 | {"ts":99999999999999999999999,"ip":"203.0.113.7"}
its time cannot be read | {"ts":9999999999999999999999999999999999999999999999999,"ip":"203.0.113.7"}
its time cannot be read | {"ts":"1e","ip":"203.0.113.7"}
its time cannot be read | {"ts":"1e25","ip":"203.0.113.7"}
its time is after 2112 | {"ts":1e23,"ip":"203.0.113.7"}
its time is a date without a time of day: name another field with --time | {"date":"2026-05-29","client_ip":"203.0.113.7"}
its time is a date without a time of day | {"date":"2026/05/29","client_ip":"203.0.113.7"}
its time is a date without a time of day | {"ts":20260529,"client_ip":"203.0.113.7"}
its time is a date without a time of day | {"date":"2026-05-29","time":0.003,"client_ip":"203.0.113.7"}
it has no client address: name its field with --address | {"ts":1793491200,"ClientHost":"203.0.113.7","http_x_real_ip":"203.0.113.7"}
its time cannot be read | {"ts":"soon","ip":"203.0.113.7"}
its time cannot be read | {"ts":null,"ip":"203.0.113.7"}
it has no time: name its field with --time | {"ip":"203.0.113.7"}
it has no client address | host.example - - [01/Nov/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1
"#;

#[test]
fn lines_without_a_time_or_an_address_are_unreadable() {
    for line in LINES.trim().lines() {
        let (reason, line) = line.split_once(" | ").unwrap();
        expect_unreadable(line.as_bytes(), reason);
    }
}

#[test]
fn lines_without_a_form_are_unreadable() {
    let deep = format!(
        "{{\"ts\":1793491200,\"ip\":{}{}}}",
        "[".repeat(30_000),
        "]".repeat(30_000)
    );
    let unclosed = format!("{{\"a\":{}", "[".repeat(60_000));
    let long = "x".repeat(1_000_000);
    for (line, reason) in [
        (b"".as_slice(), "it is in no known format"),
        (b"{", "it is in no known format"),
        (b"[1]", "it is in no known format"),
        (b"# a comment", "it is in no known format"),
        (b"\x00\xff\xfe [\xff] \"\xff\"", "its time cannot be read"),
        (deep.as_bytes(), "it "),
        (unclosed.as_bytes(), "it is in no known format"),
        (long.as_bytes(), "it is longer than 64 KiB"),
        (
            b"\x1b[31mred",
            "it is in no known format: use Common Log Format, ",
        ),
    ] {
        expect_unreadable(line, reason);
    }
    let output = run_with(&["suggest"], b"\x1b[31mred\n");
    assert!(
        stderr(&output).contains(": \\u{1b}[31mred\n"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn first_five_unreadable_lines_are_shown_and_all_are_counted() {
    let log = file("log", format!("{GOOD}\n{}", "x\n".repeat(7)));
    let output = run(&["replay", "--limits", &file("yml", ONE_PER_HOUR), &log]);
    let text = stdout(&output);
    assert!(text.contains("8 lines, 7 of them unreadable"), "{text}");
    let shown = stderr(&output).matches(&format!("{log}:")).count();
    assert_eq!(shown, 5, "{}", stderr(&output));
}

#[test]
fn exit_code_is_1_and_the_last_line_is_the_remedy_if_nothing_counts() {
    let unix = br#"{"ts": "2026-10-10T13:55:31Z", "remote_addr": "unix:", "host": "10.0.0.9"}"#;
    let (limits, rules) = (
        file("yml", ONE_PER_HOUR),
        file("yml", "- {limit: requests, path: /a}\n"),
    );
    let concurrent = file("yml", "exports: {concurrent: 4}\n");
    let replay = ["replay", "--limits", &limits, "--json"];
    for (args, log, remedy) in [
        (
            &["suggest", "--json"][..],
            &b""[..],
            "the log is empty: name a file",
        ),
        (
            &["suggest", "--json"],
            b"x\n",
            "no line could be read. Of the first, it is in no known format: use ",
        ),
        (
            &["suggest", "--json"],
            unix,
            "it has no client address: name its field with --address",
        ),
        (
            &["suggest", "--json", "--key", "acount"],
            GOOD.as_bytes(),
            "no line has a client by the key `acount`: name ",
        ),
        (
            &replay,
            unix,
            "it has no client address: name its field with --address",
        ),
        (
            &[&replay[..], &["--key", "acount"]].concat(),
            GOOD.as_bytes(),
            "no request met a limit: check --key",
        ),
        (
            &[&replay[..], &["--rules", &rules]].concat(),
            GOOD.as_bytes(),
            "no request met a limit: check --key, and",
        ),
        (
            &["replay", "--limits", &concurrent, "--json"],
            GOOD.as_bytes(),
            "use a limit of requests over time",
        ),
    ] {
        let output = run_with(args, log);
        json_with_code(&output, 1);
        assert!(
            stderr(&output).lines().last().unwrap().contains(remedy),
            "{remedy}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn mutated_lines_never_panic() {
    let mut numbers = Random(5);
    let seeds = [
        GOOD.as_bytes(),
        br#"{"ts":1793494805.52,"request":{"client_ip":"203.0.113.7","method":"GET","uri":"/a?b"},"a":["b",{"c":null}]}"#,
        br#"https 2026-10-10T13:55:31.012345Z app/a 203.0.113.1:41817 10.0.0.1:80 "GET https://a:443/ HTTP/1.1""#,
        b"#Fields: date time c-ip",
        b"2026-10-10 13:55:31 203.0.113.1, 203.0.113.2",
    ];
    let mut log = Vec::new();
    for round in 0..20_000 {
        let mut line = seeds[round % seeds.len()].to_vec();
        for _ in 0..=numbers.below(4) {
            let at = usize::try_from(numbers.below(line.len() as u64)).unwrap();
            match numbers.below(3) {
                0 => line[at] = u8::try_from(numbers.below(256)).unwrap(),
                1 => drop(line.remove(at)),
                _ => line.insert(
                    at,
                    b"\"\\{}[]:-, 9"[usize::try_from(numbers.below(11)).unwrap()],
                ),
            }
        }
        line.retain(|byte| *byte != b'\n');
        log.extend(line);
        log.push(b'\n');
    }
    let rules = file(
        "yml",
        "- {limit: a, path: /a, method: [GET, POST]}\n- {limit: a, key: request.uri}\n",
    );
    let more = ["--rules", &rules, "--hops", "1"];
    let report = json_of(&replay("a: 1/s burst 3\n", &more, &log));
    assert_eq!(report["lines"], 20_000);
    assert!(
        report["limits"]["a"]["clients"].as_u64() > Some(5),
        "{report}"
    );
}
