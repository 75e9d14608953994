//! Requests that are refused before they are limited, and the parts of a request that reach the server.

use std::{io::Write, net::TcpStream};

use serde_json::json;

use super::{ALICE, BOB, CALL, Gateway, answer, call, error};
use crate::{eventually::eventually, programs::Response};

/// Sends a body with the key of Alice.
fn post(gateway: &Gateway, body: impl AsRef<[u8]>) -> Response {
    let key = ("authorization", "Bearer key-of-alice");
    gateway.server.send("POST", CALL, &[key], body)
}

#[test]
fn unknown_key_is_refused_and_not_repeated() {
    let gateway = Gateway::start(&[]);
    let body = call("", 1).to_string();
    let authorizations: [&[&[u8]]; 11] = [
        &[],
        &[b""],
        &[b"Bearer"],
        &[b"Bearer "],
        &[b"Bearer key-of-nobody"],
        &[b"Bearer KEY-OF-ALICE"],
        &[b"Bearer alice"],
        &[b"Basic key-of-alice"],
        &[b"key-of-alice"],
        &[b"Bearer key-of-\xff"],
        &[b"Bearer key-of-alice", b"Bearer key-of-bob"],
    ];
    for authorizations in authorizations {
        let headers = authorizations.iter().map(|one| ("authorization", *one));
        let headers: Vec<_> = headers
            .chain([("x-api-key", &b"key-of-alice"[..])])
            .collect();
        let refused = gateway.server.send("POST", CALL, &headers, &body);
        assert_eq!(refused.status, 401, "{headers:?}");
        assert_eq!(error(&refused, "code"), "invalid_api_key");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        assert!(!refused.body.contains("key-of"), "{}", refused.body);
        assert_eq!(refused.header("x-ratelimit-limit-requests"), None);
    }
    assert_eq!(gateway.server.get("/v1/models", &[]).status, 401);
    assert!(gateway.upstream.is_idle());
    gateway.comes_to_have(ALICE, 10_000);
}

#[track_caller]
fn expect_invalid(refused: &Response, body: &str, param: &str) {
    assert_eq!(refused.status, 400, "{body}: {refused:?}");
    assert_eq!(error(refused, "param"), param, "{body}");
    assert_eq!(error(refused, "type"), "invalid_request_error");
    assert!(!refused.body.contains("secret"), "{}", refused.body);
}

#[test]
fn unfinished_bodies_hold_up_further_ones_of_their_own_key_only() {
    let gateway = Gateway::start(&[]);
    let begin = |_| {
        let mut stream = TcpStream::connect(gateway.server.address()).unwrap();
        let key = "authorization: Bearer key-of-alice";
        let begun = format!(
            "POST {CALL} HTTP/1.1\r\nhost: test\r\n{key}\r\ncontent-length: 1000\r\n\r\n{{"
        );
        stream.write_all(begun.as_bytes()).unwrap();
        stream
    };
    let begun: Vec<_> = (0..40).map(begin).collect();
    let is_answered = || {
        let next = gateway.send(ALICE, &call("", 1));
        for _ in 0..10 {
            assert_eq!(gateway.call(BOB, &call("", 1), 1).status, 200);
        }
        next.is_answered()
    };
    // The request can overtake some of the unfinished ones, so it is sent until it has to wait.
    eventually("a further body waits", || !is_answered());
    drop(begun);
    gateway.comes_to_serve(ALICE);
}

#[test]
fn body_that_is_no_call_is_refused_and_costs_nothing() {
    let gateway = Gateway::start(&[]);
    let many: String = (0..64).map(|i| format!("\"f{i}\": 0,")).collect();
    for body in [
        "",
        "secret",
        "[]",
        r#"{"model": "m", "model": "m"}"#,
        // It is not known which model the server would use.
        r#"{"model": "small-model", "mod\u0065l": "large-model"}"#,
        &format!(r#"{{{many} "model": "small-model"}}"#),
        &format!("{{\"messages\": {}", "[".repeat(100_000)),
    ] {
        expect_invalid(&post(&gateway, body), body, "null");
    }
    let no_text = post(&gateway, b"{\"model\": \"\xff\"}");
    expect_invalid(&no_text, "no text", "null");
    assert!(gateway.upstream.is_idle());
    gateway.comes_to_have(ALICE, 10_000);
}

#[test]
fn field_of_the_wrong_type_is_refused_and_named() {
    let gateway = Gateway::start(&[]);
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    for (field, value) in [
        ("messages", &*deep),
        ("max_tokens", "\"secret\""),
        ("max_tokens", "-1"),
        ("max_completion_tokens", "1.5"),
        ("n", "[]"),
        ("stream", "\"secret\""),
        ("stream\": true, \"stream_options", "7"),
    ] {
        let body = format!("{{\"model\": \"small-model\", \"{field}\": {value}}}");
        let param = field.rsplit('"').next().unwrap();
        expect_invalid(&post(&gateway, &body), &body, param);
    }
    for body in ["{}", r#"{"model": 7}"#, r#"{"model": null}"#] {
        expect_invalid(&post(&gateway, body), body, "model");
    }
    assert!(gateway.upstream.is_idle());
}

#[test]
fn server_gets_the_call_and_not_the_key() {
    let gateway = Gateway::start(&[]);
    let mut body = call("hello", 5);
    body["temperature"] = json!(0.5);
    body["metadata"] = json!({"any": ["thing", null]});
    let (client, asked) = gateway.begin(ALICE, &body);
    assert_eq!(asked.body, body);
    assert!(
        asked.head.starts_with("post /v1/chat/completions http/1.1"),
        "{}",
        asked.head
    );
    assert!(!asked.head.contains("key-of"), "{}", asked.head);
    asked.answer(200, &answer(Some(1)));
    assert_eq!(client.response().status, 200);
}
