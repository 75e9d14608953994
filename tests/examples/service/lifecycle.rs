//! How the service starts, refuses to start, and ends.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use serde_json::json;

use super::process::{DEFAULTS, Response, Service, T0, file, run};

/// Begins a request, and returns once the service is reading its body.
fn begin(service: &Service, length: usize) -> TcpStream {
    let mut stream = service.connect();
    let head = format!(
        "POST /v1/decide HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("the head is sent");
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).expect("the service goes on");
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

#[test]
fn sigterm_finishes_what_is_in_flight() {
    let service = Service::start();
    let spend = json!({
        "op": "spend", "now_us": T0, "transactions": [{"limit": "Orders", "id": "a"}],
    });
    let body = spend.to_string();
    let mut stream = begin(&service, body.len());
    service.signal("TERM");
    service.expect_stderr("shutting down");
    stream.write_all(body.as_bytes()).unwrap();
    let response = Response::read(&mut stream);
    assert_eq!(
        (response.status, &response.body["remaining"]),
        (200, &json!(19))
    );
    assert_eq!(service.finish(), (Some(0), vec![]));
}

#[test]
fn idle_connections_do_not_hold_a_shutdown_up() {
    for signal in ["TERM", "INT"] {
        let service = Service::start();
        let mut kept_alive = service.connect();
        kept_alive
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n")
            .unwrap();
        assert_ne!(kept_alive.read(&mut [0; 1024]).unwrap(), 0);
        let never_used = service.connect();
        service.signal(signal);
        assert_eq!(service.finish(), (Some(0), vec![]), "{signal}");
        // The service closed it; it did not wait for us to.
        assert_eq!(kept_alive.read(&mut [0; 1024]).unwrap(), 0);
        drop(never_used);
    }
}

#[test]
#[ignore = "waits out the ten seconds of grace"]
fn request_that_never_ends_holds_a_shutdown_up_only_so_long() {
    let service = Service::start();
    let _stream = begin(&service, 100);
    service.signal("TERM");
    service.expect_stderr("gave up");
    assert_eq!(service.finish(), (Some(0), vec![]));
}

#[test]
fn failure_options_are_accepted_without_redis() {
    for policy in ["refuse", "allow", "local"] {
        Service::start_with(&["--on-failure", policy, "--deadline-ms", "50"]);
    }
}

#[test]
fn bad_arguments_exit_2_with_the_reason_and_the_usage() {
    let defaults = file(DEFAULTS);
    let defaults = defaults.to_str().unwrap();
    let good = ["--listen", "127.0.0.1:0", "--defaults", defaults];
    let cases: [(&[&str], &str); 13] = [
        (&["--verbose"], "unknown argument `--verbose`"),
        (&["extra"], "unknown argument `extra`"),
        (
            &["--manual-clock=yes"],
            "unknown argument `--manual-clock=yes`",
        ),
        (
            &["--manual-clock", "--manual-clock"],
            "--manual-clock is given twice",
        ),
        (&["--listen", "127.0.0.1:0"], "--listen is given twice"),
        (&["--redis"], "--redis needs a value"),
        (&["--on-failure"], "--on-failure needs a value"),
        (&["--on-failure", "panic"], "use refuse, allow or local"),
        (&["--deadline-ms", "0"], "--deadline-ms is `0`"),
        (&["--deadline-ms", "-5"], "--deadline-ms is `-5`"),
        (&["--deadline-ms", "1.5"], "--deadline-ms is `1.5`"),
        (&["--deadline-ms", "50ms"], "--deadline-ms is `50ms`"),
        (
            &["--overrides", "--manual-clock"],
            "--overrides needs a value",
        ),
    ];
    for (extra, reason) in cases {
        let args: Vec<_> = good.iter().chain(extra).copied().collect();
        expect_refusal(&args, &[reason, "usage: "]);
    }
    expect_refusal(&[], &["--listen is missing", "usage: "]);
    expect_refusal(&good[..2], &["--defaults is missing", "usage: "]);
    expect_refusal(&good[2..], &["--listen is missing", "usage: "]);
    expect_refusal(&good[..3], &["--defaults needs a value", "usage: "]);
}

#[test]
fn redis_urls_that_lead_nowhere_are_refused() {
    let defaults = file(DEFAULTS);
    let defaults = defaults.to_str().unwrap();
    let args = ["--listen", "127.0.0.1:0", "--defaults", defaults, "--redis"];
    for (url, reason) in [
        ("127.0.0.1:6379", "it has no scheme"),
        ("http://127.0.0.1:6379", "it begins with another scheme"),
        ("redis-sentinel://127.0.0.1:26379", "sentinelServiceName"),
    ] {
        let args: Vec<_> = args.iter().chain(&[url]).copied().collect();
        expect_refusal(&args, &[reason, "use `redis://host:6379`"]);
    }
}

#[test]
fn bad_defaults_file_is_refused_whole() {
    let cases = [
        ("Orders: {burst: 0, count: 1, period: 1s}", "burst is 0"),
        (
            "A: {}\nOrders: {bursts: 1, count: 1, period: 1s}",
            "did you mean `burst`?",
        ),
        ("Orders: {burst: 1, count: 1}", "period is missing"),
        ("Orders: {burst: 1, count: 1, period: 60}", "add a unit"),
        (
            "Orders: {tiers: 1}",
            "expected a list of `{limit, window, active, cooldown}`",
        ),
        (
            "Orders: {number: 1}\nB: {number: 1}",
            "it has the number 1, which `Orders` has too",
        ),
        ("Or ders: {}", "not a limit name"),
        ("- a", ".yml:1: "),
    ];
    for (text, reason) in cases {
        let path = file(text);
        let args = [
            "--listen",
            "127.0.0.1:0",
            "--defaults",
            path.to_str().unwrap(),
        ];
        expect_refusal(&args, &[reason]);
    }
    let args = [
        "--listen",
        "127.0.0.1:0",
        "--defaults",
        "/nowhere/limits.yml",
    ];
    expect_refusal(&args, &["/nowhere/limits.yml", "cannot read it"]);
}

#[test]
fn address_that_cannot_be_had_is_refused() {
    let service = Service::start();
    let taken = service.address.to_string();
    let path = file(DEFAULTS);
    for address in [&*taken, "nonsense", "127.0.0.1", "127.0.0.1:99999"] {
        let args = ["--listen", address, "--defaults", path.to_str().unwrap()];
        expect_refusal(&args, &["cannot listen on", address]);
    }
}

/// Expects exit code 2, nothing on standard output, and an error that holds `texts`.
fn expect_refusal(args: &[&str], texts: &[&str]) {
    let output = run(args);
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "{args:?}: {:?}", output.stdout);
    for text in texts {
        assert!(message.contains(text), "{args:?}: {message}");
    }
}
