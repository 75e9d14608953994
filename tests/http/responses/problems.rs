//! Problem documents, held against RFC 9457.

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::ManualClock,
    key::Everyone,
    limit::LimitName,
    response::{PlainText, Problem},
    transaction::Mode,
};

use super::value;
use crate::support::{send, text};

/// The last of some responses, checked: its head and its document.
async fn problem(layer: &RateLimitLayer, requests: usize) -> (StatusCode, HeaderMap, Value) {
    for _ in 1..requests {
        send(layer, "203.0.113.7").await;
    }
    let response = send(layer, "203.0.113.7").await;
    let (status, headers) = (response.status(), response.headers().clone());
    let content_type = value(&headers, "content-type");
    assert_eq!(content_type, Some("application/problem+json"));
    assert_eq!(value(&headers, "cache-control"), Some("no-store"));
    let document: Value = serde_json::from_str(&text(response).await).unwrap();
    check(&document, status);
    (status, headers, document)
}

fn check(document: &Value, status: StatusCode) {
    let standard = ["type", "title", "status", "detail", "instance"];
    for (name, member) in document.as_object().unwrap() {
        match &**name {
            "status" => assert_eq!(*member, status.as_u16()),
            "type" | "instance" => assert!(member.as_str().unwrap().parse::<url::Url>().is_ok()),
            "title" | "detail" => assert!(!member.as_str().unwrap().is_empty()),
            extension => {
                let mut chars = extension.chars();
                assert!(chars.next().unwrap().is_ascii_alphabetic());
                assert!(extension.len() >= 3);
            }
        }
    }
    assert!(
        standard[..4]
            .iter()
            .all(|name| document.get(name).is_some())
    );
}

#[tokio::test]
async fn denial_names_all_limits_that_deny_and_no_others() {
    let limits = Limits::builder()
        .limit("per-ip", Limit::per_minute(2))
        .limit("loose", Limit::per_minute(9))
        .limit("all", Limit::per_hour(2))
        .limit("mute", Limit::per_hour(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter.with_clock(ManualClock::default()))
        .rule(Rule::new("per-ip", ClientIp::peer()))
        .rule(Rule::new("loose", ClientIp::peer()))
        .rule(Rule::new("all", Everyone))
        .rule(Rule::new("mute", Everyone).mode(Mode::SpendOnly))
        .respond_with(Problem::new());
    let (status, headers, document) = problem(&layer, 3).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota Exceeded",
        "status": 429,
        "detail": "limit `all` exceeded (2 per 1h0m0s, 2 at once) from everyone: retry in 30 minutes",
        "violated-policies": ["per-ip", "all"],
    });
    assert_eq!(document, expected);
    let state = Some("\"per-ip\";r=0;t=30, \"all\";r=0;t=1800");
    assert_eq!(value(&headers, "ratelimit"), state);
    assert_eq!(value(&headers, "retry-after"), Some("1800"));
}

#[tokio::test]
async fn acme_client_is_told_as_boulder_would() {
    let name = LimitName::from("NewOrdersPerAccount")
        .description("new orders")
        .docs("https://example.com/limits");
    let limit = Limit::new(300, 300, std::time::Duration::from_secs(3 * 60 * 60)).unwrap();
    let limits = Limits::builder().limit(name, limit).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new());
    let account = |_: &http::request::Parts| Some("12345678".to_owned());
    let layer = RateLimitLayer::with_limiter(limiter.with_clock(ManualClock::default()))
        .rule(Rule::new("NewOrdersPerAccount", account))
        .respond_with(Problem::acme());
    let (status, headers, document) = problem(&layer, 301).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(document["type"], "urn:ietf:params:acme:error:rateLimited");
    let detail = "too many new orders (300 per 3h0m0s, 300 at once) from 12345678: retry in 36 s, \
                  see https://example.com/limits";
    assert_eq!(document["detail"], detail);
    let link = Some("<https://example.com/limits>;rel=\"help\"");
    assert_eq!(value(&headers, "link"), link);
    // The same in plain words.
    let response = send(&layer.respond_with(PlainText), "203.0.113.7").await;
    assert_eq!(value(response.headers(), "link"), link);
    assert_eq!(text(response).await, format!("{detail}\n"));
}
