//! What a call costs, however it ends.

use super::{ALICE, Gateway, answer, call, error, number, upstream::Upstream};
use crate::programs::Response;

fn ask(gateway: &Gateway, status: u16, body: &str) -> Response {
    let (mut connection, asked) = gateway.begin(ALICE, &call("four", 50));
    asked.answer(status, body);
    connection.response()
}

#[test]
fn answer_costs_what_the_server_reports() {
    let gateway = Gateway::start(&[]);
    let (mut connection, asked) = gateway.begin(ALICE, &call("four", 50));
    // Until then, its reservation counts.
    gateway.comes_to_have(ALICE, 10_000 - 51);
    asked.answer(200, &answer(Some(7)));
    let response = connection.response();
    assert_eq!((response.status, response.body), (200, answer(Some(7))));
    gateway.comes_to_have(ALICE, 10_000 - 7);
}

#[test]
fn answer_that_used_more_than_was_reserved_costs_all_of_it() {
    let hours = "{burst: 100, count: 1, period: 1000h}";
    let gateway = Gateway::start(&[("free.tokens", hours)]);
    let response = gateway.call(ALICE, &call("", 50), 70);
    assert_eq!(number(&response, "x-ratelimit-remaining-tokens"), 50);
    gateway.comes_to_have(ALICE, 30);
    // It may even take more than there is, which others then wait for.
    assert_eq!(gateway.call(ALICE, &call("", 20), 250).status, 200);
    let refused = gateway.refused(ALICE, &call("", 1));
    assert_eq!(error(&refused, "type"), "tokens");
    assert_eq!(number(&refused, "x-ratelimit-remaining-tokens"), 0);
    // 220 tokens of debt, and one for the call.
    let wait = number(&refused, "retry-after") / 3_600_000;
    assert!((220..=221).contains(&wait), "{wait}");
}

#[test]
fn absurd_usage_is_a_debt_and_nothing_worse() {
    let gateway = Gateway::start(&[]);
    let response = ask(
        &gateway,
        200,
        r#"{"usage": {"total_tokens": 18446744073709551615}}"#,
    );
    assert_eq!(response.status, 200);
    let refused = gateway.refused(ALICE, &call("", 1));
    assert_eq!(refused.status, 429);
}

#[test]
fn answer_without_usage_costs_its_reservation() {
    let gateway = Gateway::start(&[]);
    let mut left = 10_000;
    for body in [
        answer(None),
        "no JSON".to_owned(),
        r#"{"usage": null}"#.to_owned(),
    ] {
        let response = ask(&gateway, 200, &body);
        assert_eq!((response.status, response.body), (200, body));
        left -= 51;
        gateway.comes_to_have(ALICE, left);
    }
}

#[test]
fn error_of_the_server_costs_no_tokens_and_a_request() {
    let gateway = Gateway::start(&[]);
    let body = r#"{"error": {"message": "overloaded", "type": "server_error", "param": null, "code": null}}"#;
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
    let (mut connection, asked) = gateway.begin(ALICE, &call("", 1));
    let headers = "retry-after: 7\r\nx-ratelimit-limit-tokens: 1\r\nset-cookie: a=b\r\n";
    asked.answer_with(429, headers, "{}");
    let response = connection.response();
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
fn server_that_does_not_answer_costs_no_tokens() {
    let gateway = Gateway::start(&[("free.calls", "{concurrent: 1}")]);
    for _ in 0..3 {
        let (mut connection, asked) = gateway.begin(ALICE, &call("four", 50));
        // It hangs up.
        drop(asked);
        let response = connection.response();
        assert_eq!(response.status, 502);
        assert_eq!(error(&response, "type"), "server_error");
        // The permit is back as well.
        gateway.comes_to_have(ALICE, 10_000);
    }
}

#[test]
fn server_that_is_not_there_is_a_bad_gateway() {
    let gateway = Gateway::before(Upstream::nowhere(), &[], &[]);
    let response = gateway.refused(ALICE, &call("four", 50));
    assert_eq!(response.status, 502);
    let again = gateway.refused(ALICE, &call("four", 50));
    // Both reservations came back before.
    assert_eq!(number(&again, "x-ratelimit-remaining-tokens"), 10_000 - 51);
}

#[test]
fn client_that_leaves_before_the_answer_pays_its_reservation() {
    let gateway = Gateway::start(&[("free.calls", "{concurrent: 1}")]);
    let (connection, asked) = gateway.begin(ALICE, &call("four", 50));
    assert_eq!(gateway.refused(ALICE, &call("", 1)).status, 429);
    drop(connection);
    // The server can stop, and the next call begins.
    asked.comes_to_be_closed();
    super::comes_true(
        || gateway.call(ALICE, &call("", 1), 0).status,
        |status| *status == 200,
    );
    gateway.comes_to_have(ALICE, 10_000 - 51);
}
