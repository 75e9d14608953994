//! The four limits of a key, and how clients learn of them.

use serde_json::json;

use super::{ALICE, BOB, Gateway, call, error, number, stream};
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
fn model_of_a_class_has_its_own_limit_where_the_plan_has_one() {
    let gateway = Gateway::start(&[]);
    let large = |key| {
        let call = json!({"model": "large-model", "messages": []});
        gateway.call(key, &call, 0)
    };
    // The plan has requests for large models, and shares its tokens among all models.
    let fields = [("limit-requests", "50"), ("remaining-requests", "49")];
    let response = large(BOB);
    expect_fields(&response, &fields);
    expect_fields(
        &response,
        &[("limit-tokens", "20000"), ("remaining-tokens", "19700")],
    );
    let small = gateway.call(BOB, &call("", 1), 0);
    expect_fields(
        &small,
        &[("limit-requests", "2000"), ("remaining-requests", "1999")],
    );
    expect_fields(
        &large(ALICE),
        &[("limit-requests", "1000"), ("remaining-requests", "999")],
    );
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
    // Nothing else was charged.
    expect_fields(&refused, &[("remaining-tokens", "9998")]);
    assert!(gateway.upstream.is_idle());
    assert_eq!(gateway.call(BOB, &call("", 1), 1).status, 200);
}

#[test]
fn tokens_beyond_the_limit_are_refused() {
    let hours = "{burst: 100, count: 1, period: 1000h}";
    let gateway = Gateway::start(&[("free.tokens", hours)]);
    assert_eq!(gateway.call(ALICE, &call("", 60), 60).status, 200);
    // Its reservation does not fit, whatever it would use.
    let refused = gateway.refused(ALICE, &call("", 41));
    assert_eq!(refused.status, 429);
    assert_eq!(error(&refused, "type"), "tokens");
    assert!(refused.header("retry-after").is_some());
    expect_fields(
        &refused,
        &[("remaining-tokens", "40"), ("remaining-requests", "999")],
    );
    assert_eq!(gateway.call(ALICE, &call("", 40), 1).status, 200);
}

#[test]
fn call_above_the_whole_limit_is_not_worth_trying_again() {
    let gateway = Gateway::start(&[]);
    let several = |n: u64, max: u64| {
        let mut call = call("", 1);
        call["n"] = n.into();
        call["max_tokens"] = max.into();
        call
    };
    for call in [
        call("", 10_001),
        several(11, 1000),
        several(u64::MAX, u64::MAX),
        call(&"word ".repeat(8_001), 0),
    ] {
        let refused = gateway.refused(ALICE, &call);
        assert_eq!(refused.status, 413);
        assert_eq!(error(&refused, "code"), "request_too_large");
        assert_eq!(refused.header("retry-after"), None);
    }
    gateway.comes_to_have(ALICE, 10_000);
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
    // What is left can still be used.
    assert_eq!(gateway.call(ALICE, &call("", 1), 1).status, 200);
}

#[test]
fn calls_at_once_are_bounded_until_their_answers_have_ended() {
    let gateway = Gateway::start(&[("free.calls", "{concurrent: 2}")]);
    let (mut first, asked) = gateway.begin(ALICE, &call("", 1));
    let (mut second, mut streaming) = gateway.begin(ALICE, &stream("", 1));
    streaming.begin_stream();
    assert_eq!(second.head().status, 200);
    let refused = gateway.refused(ALICE, &call("", 1));
    assert_eq!(refused.status, 429);
    assert_eq!(error(&refused, "type"), "calls");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("retry-after-ms"), Some("1000"));
    // Another key has calls of its own.
    assert_eq!(gateway.call(BOB, &call("", 1), 1).status, 200);

    asked.answer(200, &super::answer(Some(1)));
    assert_eq!(first.response().status, 200);
    gateway.comes_to_have(ALICE, 9_998);
    drop(streaming);
}
