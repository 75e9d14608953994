//! The cost of a call, for all ways in which it can end.

use super::{ALICE, Gateway, call, error, number, stream};
use crate::{eventually::eventually, programs::Response};

fn ask(gateway: &Gateway, status: u16, body: &str) -> Response {
    let (client, asked) = gateway.begin(ALICE, &call("four", 50));
    asked.answer(status, body);
    client.response()
}

#[test]
fn error_of_the_server_costs_no_tokens_and_a_request() {
    let gateway = Gateway::start(&[]);
    let body = r#"{"error": {"message": "overloaded"}, "usage": {"total_tokens": 900}}"#;
    for status in [400, 429, 500, 503] {
        let response = ask(&gateway, status, body);
        assert_eq!((response.status, &*response.body), (status, body));
    }
    let response = gateway.call(ALICE, &call("", 1), 0);
    assert_eq!(
        number(&response, "x-ratelimit-remaining-requests"),
        1000 - 5
    );
    gateway.comes_to_have(ALICE, 10_000);
}

#[test]
fn wait_that_the_server_asks_for_is_passed_on_and_its_figures_are_not() {
    let gateway = Gateway::start(&[]);
    let (client, asked) = gateway.begin(ALICE, &call("", 1));
    let headers = "retry-after: 7\r\nx-ratelimit-limit-tokens: 1\r\nset-cookie: a=b\r\n";
    asked.answer_with(429, headers, "{}");
    let response = client.response();
    assert_eq!(response.header("retry-after"), Some("7"));
    assert_eq!(response.header("x-ratelimit-limit-tokens"), Some("10000"));
    assert_eq!(response.header("set-cookie"), None);
}

#[test]
fn server_that_refuses_the_key_of_the_gateway_is_not_quoted() {
    let gateway = Gateway::start(&[]);
    let response = ask(&gateway, 401, "incorrect key: sk-real");
    assert_eq!(response.status, 502);
    assert_eq!(error(&response, "code"), "upstream_failed");
    assert!(!response.body.contains("sk-real"), "{}", response.body);
    gateway.comes_to_have(ALICE, 10_000);
}

#[test]
fn client_that_leaves_before_the_answer_pays_its_reservation() {
    let gateway = Gateway::start(&[("free.calls", "{concurrent: 1}")]);
    let (client, asked) = gateway.begin(ALICE, &call("four", 50));
    assert_eq!(gateway.refused(ALICE, &call("", 1)).status, 429);
    drop(client);
    // The server can stop, and the next call begins.
    asked.comes_to_be_closed();
    gateway.comes_to_serve(ALICE);
    gateway.comes_to_have(ALICE, 10_000 - 51);
}

#[test]
fn unrequested_upgrade_is_a_bad_gateway() {
    let gateway = Gateway::start(&[]);
    let (client, asked) = gateway.begin(ALICE, &call("four", 50));
    asked.answer_with(101, "upgrade: x\r\nconnection: upgrade\r\n", "");
    assert_eq!(client.response().status, 502);
    gateway.comes_to_have(ALICE, 10_000);
}

/// The tokens of a stream in an unusual form, whose head and events the server sends.
fn stream_costs(status: u16, headers: &str, event: &str) -> u32 {
    let gateway = Gateway::start(&[]);
    let (client, asked) = gateway.begin(ALICE, &stream("four", 50));
    assert!(
        asked.head.contains("accept-encoding: identity"),
        "{}",
        asked.head
    );
    asked.answer_with(status, headers, event);
    assert_eq!(client.response().body, event);
    let mut left = 0;
    eventually("the stream is settled", || {
        left = gateway.left(ALICE);
        left != 10_000 - 51
    });
    10_000 - left
}

#[test]
fn unusual_streams_are_counted() {
    let event = "data: {\"choices\": [{\"delta\": {\"content\": \"12345678\"}}]}\n\n";
    assert_eq!(
        stream_costs(200, "content-type: Text/Event-Stream\r\n", event),
        1 + 2
    );
    let gzip = "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n";
    let bytes = u32::try_from(event.len()).unwrap().div_ceil(4);
    assert_eq!(stream_costs(200, gzip, event), 1 + bytes);
    let usage = "data: {\"choices\": [{}], \"usage\": {\"total_tokens\": 900}}\n\n";
    assert_eq!(
        stream_costs(500, "content-type: text/event-stream\r\n", usage),
        0
    );
}
