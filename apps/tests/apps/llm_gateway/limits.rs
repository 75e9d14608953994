//! The four limits of a key, and how clients learn of them.

use super::{ALICE, BOB, Gateway, call, error, number};
use crate::programs::Response;

#[track_caller]
fn expect_fields(response: &Response, fields: &[(&str, &str)]) {
    for (name, value) in fields {
        let name = format!("x-ratelimit-{name}");
        assert_eq!(response.header(&name), Some(*value), "{name}: {response:?}");
    }
}

#[test]
fn fields_show_requests_and_tokens_of_the_plan() {
    let gateway = Gateway::start(&[]);
    let response = gateway.call(ALICE, &call("12345678", 40), 0);
    expect_fields(
        &response,
        &[
            ("limit-requests", "1000"),
            ("remaining-requests", "999"),
            ("reset-requests", "10h0m0s"),
            ("limit-tokens", "10000"),
            // The prompt of eight bytes is taken for two tokens.
            ("remaining-tokens", "9958"),
            ("reset-tokens", "420h0m0s"),
        ],
    );
    let other = gateway.call(BOB, &call("", 1), 0);
    expect_fields(
        &other,
        &[("limit-requests", "2000"), ("limit-tokens", "20000")],
    );
    // The fields of the layer's own would say the same in another way.
    assert_eq!(response.header("ratelimit"), None);
}

#[test]
fn requests_beyond_the_limit_are_refused_in_the_form_of_the_protocol() {
    let hour = "{burst: 2, count: 1, period: 1h}";
    let gateway = Gateway::start(&[("free.requests", hour)]);
    for _ in 0..2 {
        assert_eq!(gateway.call(ALICE, &call("", 1), 1).status, 200);
    }
    let refused = gateway.refused(ALICE, &call("", 1));
    assert_eq!(refused.status, 429);
    assert_eq!(error(&refused, "type"), "requests");
    assert_eq!(error(&refused, "code"), "rate_limit_exceeded");
    let seconds = number(&refused, "retry-after");
    assert!((1..=3600).contains(&seconds), "{seconds}");
    let ms = number(&refused, "retry-after-ms");
    assert_eq!(ms.div_ceil(1000), seconds);
    expect_fields(
        &refused,
        &[("limit-requests", "2"), ("remaining-requests", "0")],
    );
    assert!(gateway.upstream.is_idle());
    assert_eq!(gateway.call(BOB, &call("", 1), 1).status, 200);
}

#[test]
fn month_that_is_used_up_is_not_worth_trying_again() {
    let gateway = Gateway::start(&[("free.month", "{quota: 500, per: 1000h}")]);
    assert_eq!(gateway.call(ALICE, &call("", 10), 499).status, 200);
    let refused = gateway.refused(ALICE, &call("", 10));
    assert_eq!(refused.status, 429);
    assert_eq!(error(&refused, "type"), "insufficient_quota");
    assert_eq!(error(&refused, "code"), "insufficient_quota");
    assert_eq!(refused.header("x-should-retry"), Some("false"));
    assert!(number(&refused, "retry-after") > 3600);
    // The remaining tokens can still be used.
    assert_eq!(gateway.call(ALICE, &call("", 1), 1).status, 200);
}
