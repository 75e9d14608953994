//! How the service starts, refuses to start, and ends.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use serde_json::json;

use super::process::{DEFAULTS, Service, T0, file};
use crate::{eventually::PATIENCE, expect_refusal};

/// Begins a request, and returns once the service is reading its body.
fn begin(service: &Service, length: usize) -> TcpStream {
    const GO_ON: &[u8; 25] = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut stream = TcpStream::connect(service.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /v1/decide HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; GO_ON.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, GO_ON);
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
    service.program.signal("TERM");
    service.program.expect_stderr("shutting down");
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains(r#""remaining":19"#), "{answer}");
    assert_eq!(service.program.finish(), (Some(0), vec![]));
}

#[test]
fn bad_arguments_and_files_exit_2_and_are_named() {
    let defaults = file(DEFAULTS);
    let bad = file("Orders: {burst: 0, count: 1, period: 1s}");
    for (defaults, extra, texts) in [
        (
            &*defaults,
            ["--on-failure", "panic"],
            ["--on-failure", "refuse"],
        ),
        (&defaults, ["--deadline-ms", "0"], ["--deadline-ms", "1.."]),
        (&bad, ["--on-failure", "allow"], [&*bad, "burst is 0"]),
        (
            "/nowhere/limits.yml",
            ["--on-failure", "allow"],
            ["/nowhere/limits.yml", "cannot read it"],
        ),
    ] {
        let args = ["--listen", "127.0.0.1:0", "--defaults", defaults];
        expect_refusal("service", &[&args[..], &extra[..]].concat(), &texts);
    }
    expect_refusal("service", &[], &["--listen", "--defaults", "--help"]);
}
