//! Requests that are refused before they are limited, and the parts of a request that reach the server.

use serde_json::json;

use super::{ALICE, BOB, CALL, Gateway, answer, call, comes_true, error};
use crate::programs::Response;

const KEY: &str = "authorization: Bearer key-of-alice\r\n";

fn post(gateway: &Gateway, headers: &str, body: &[u8]) -> Response {
    gateway.server.request(CALL, headers.as_bytes(), body)
}

#[test]
fn unknown_key_is_refused_and_not_repeated() {
    let gateway = Gateway::start(&[]);
    let body = call("", 1).to_string();
    for headers in [
        &b""[..],
        b"authorization:\r\n",
        b"authorization: Bearer\r\n",
        b"authorization: Bearer \r\n",
        b"authorization: Bearer key-of-nobody\r\n",
        b"authorization: Bearer KEY-OF-ALICE\r\n",
        b"authorization: Bearer alice\r\n",
        b"authorization: Basic key-of-alice\r\n",
        b"authorization: key-of-alice\r\n",
        b"authorization: Bearer key-of-\xff\r\n",
        b"authorization: Bearer key-of-alice\r\nauthorization: Bearer key-of-bob\r\n",
        b"x-api-key: key-of-alice\r\n",
    ] {
        let refused = gateway.server.request(CALL, headers, body.as_bytes());
        assert_eq!(refused.status, 401, "{}", headers.escape_ascii());
        assert_eq!(error(&refused, "code"), "invalid_api_key");
        assert_eq!(refused.header("www-authenticate"), Some("bearer"));
        assert!(!refused.body.contains("key-of"), "{}", refused.body);
        assert_eq!(refused.header("x-ratelimit-limit-requests"), None);
    }
    assert_eq!(gateway.server.get("/v1/models", "").status, 401);
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
        let mut connection = gateway.server.connect();
        connection.send(format!(
            "{CALL} HTTP/1.1\r\nhost: test\r\n{KEY}content-length: 1000\r\n\r\n{{"
        ));
        connection
    };
    let begun: Vec<_> = (0..40).map(begin).collect();
    let is_answered = || {
        let next = gateway.send(ALICE, &call("", 1));
        for _ in 0..10 {
            assert_eq!(gateway.call(BOB, &call("", 1), 1).status, 200);
        }
        next.is_answered()
    };
    // It may come before some of those that have begun.
    comes_true(is_answered, |answered| !answered);
    drop(begun);
    comes_true(
        || gateway.call(ALICE, &call("", 1), 1).status,
        |status| *status == 200,
    );
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
        expect_invalid(&post(&gateway, KEY, body.as_bytes()), body, "null");
    }
    let no_text = post(&gateway, KEY, b"{\"model\": \"\xff\"}");
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
        expect_invalid(&post(&gateway, KEY, body.as_bytes()), &body, param);
    }
    for body in ["{}", r#"{"model": 7}"#, r#"{"model": null}"#] {
        expect_invalid(&post(&gateway, KEY, body.as_bytes()), body, "model");
    }
    assert!(gateway.upstream.is_idle());
}

#[test]
fn server_gets_the_call_and_not_the_key() {
    let gateway = Gateway::start(&[]);
    let mut body = call("hello", 5);
    body["temperature"] = json!(0.5);
    body["metadata"] = json!({"any": ["thing", null]});
    let (mut connection, asked) = gateway.begin(ALICE, &body);
    assert_eq!(asked.body, body);
    assert!(
        asked.head.starts_with("post /v1/chat/completions http/1.1"),
        "{}",
        asked.head
    );
    assert!(!asked.head.contains("key-of"), "{}", asked.head);
    asked.answer(200, &answer(Some(1)));
    assert_eq!(connection.response().status, 200);
}
