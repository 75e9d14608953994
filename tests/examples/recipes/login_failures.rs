//! Logins: guesses are few, successes are not.

use base64::{Engine, prelude::BASE64_STANDARD};

use super::{at_once, count, start};
use crate::programs::{Response, Server};

fn login(server: &Server, name: &str, password: &str) -> Response {
    let credentials = BASE64_STANDARD.encode(format!("{name}:{password}"));
    send(server, &[format!("Basic {credentials}").as_bytes()])
}

/// Sends a login with these fields of `Authorization`.
fn send(server: &Server, authorizations: &[&[u8]]) -> Response {
    let headers = authorizations.iter().map(|one| ("authorization", one));
    server.send("POST", "/login", &headers.collect::<Vec<_>>(), "")
}

#[test]
fn success_resets_its_account_and_refunds_its_address() {
    let (_program, server) = start("login_failures");
    for _ in 0..3 {
        for _ in 0..4 {
            assert_eq!(login(&server, "alice", "guess").status, 401);
        }
        assert_eq!(login(&server, "alice", "wonderland").status, 200);
    }
    for _ in 0..5 {
        assert_eq!(login(&server, "alice", "guess").status, 401);
    }
    // 17 failures of the address, and many refusals.
    for _ in 0..16 {
        assert_eq!(login(&server, "alice", "wonderland").status, 429);
    }
    assert_eq!(login(&server, "bob", "builder").status, 200);
    for _ in 0..3 {
        assert_eq!(login(&server, "carol", "guess").status, 401);
    }
    // Neither success has given back a failure of the address.
    assert_eq!(login(&server, "bob", "builder").status, 429);
}

/// The guesses spell the name in four ways.
#[test]
fn five_of_forty_simultaneous_guesses_reach_the_password_check() {
    let (_program, server) = start("login_failures");
    let names = ["alice", "Alice", "ALICE", "aLiCe"];
    let guesses = at_once(40, |i| login(&server, names[i % 4], &format!("guess{i}")));
    assert_eq!(count(&guesses, 401), 5);
    assert_eq!(count(&guesses, 429), 35);
    // Then not even the password helps.
    let late = login(&server, "alice", "wonderland");
    assert_eq!(late.status, 429);
    assert!(late.header("retry-after").is_some());
    // Others at the same address are still let in.
    assert_eq!(login(&server, "bob", "builder").status, 200);
}

#[test]
fn malformed_login_is_a_failure_of_its_address() {
    let (_program, server) = start("login_failures");
    let no_colon = BASE64_STANDARD.encode("alice");
    let no_name = BASE64_STANDARD.encode(":wonderland");
    let no_text = BASE64_STANDARD.encode(b"\xff\xfe:x");
    let basic = |value: &str| format!("Basic {value}").into_bytes();
    let garbage: [Vec<u8>; 9] = [
        b"".into(),
        b"Basic".into(),
        b"Bearer YWxpY2U6d29uZGVybGFuZA==".into(),
        b"Basic \xff\xfe".into(),
        basic("***"),
        basic(&no_colon),
        basic(&no_name),
        basic(&no_text),
        basic(&"A".repeat(10_000)),
    ];
    assert_eq!(send(&server, &[]).status, 401);
    for header in garbage.iter().cycle().take(19) {
        let response = send(&server, &[header]);
        assert_eq!(response.status, 401, "{}", header.escape_ascii());
        assert!(response.header("www-authenticate").is_some());
    }
    assert_eq!(send(&server, &[]).status, 429);
}
