//! Layers with limits of their own, which take one line each.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use http::{Method, StatusCode};
use tollgate::{
    ClientIp, Limit, MemoryBackend, RateLimitLayer, Rule,
    id::IdFormat,
    key::{Everyone, HeaderId},
    limit::LimitName,
    rule::methods,
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, from_ip, limiter, send};

/// Two requests, and no other while a test runs.
fn two() -> Limit {
    Limit::every(Duration::from_secs(86_400)).burst(2)
}

fn two_of_an_ip() -> RateLimitLayer {
    RateLimitLayer::new(two(), ClientIp::peer())
}

async fn status(layer: &RateLimitLayer, ip: &str) -> StatusCode {
    send(layer, ip).await.status()
}

#[tokio::test]
async fn limit_is_named_requests_or_as_in_its_store() {
    let shared = two_of_an_ip().shared("logins", MemoryBackend::new());
    for (layer, policy) in [
        (two_of_an_ip(), r#""requests";q=2;w=172800"#),
        (shared, r#""logins";q=2;w=172800"#),
    ] {
        let response = send(&layer, "192.0.2.1").await;
        assert_eq!(response.headers()["ratelimit-policy"], policy);
    }
}

#[tokio::test]
async fn clones_share_their_memory_and_layers_do_not() {
    let layer = two_of_an_ip();
    let (clone, other) = (layer.clone(), two_of_an_ip());
    let with_more = layer.clone().limit("all", two(), Everyone);
    for layer in [&layer, &clone] {
        assert_eq!(status(layer, "192.0.2.1").await, 200);
    }
    for (layer, expected) in [
        (&layer, 429),
        (&clone, 429),
        (&other, 200),
        (&with_more, 200),
    ] {
        assert_eq!(status(layer, "192.0.2.1").await, expected);
    }
}

#[tokio::test]
async fn only_limit_has_the_options_of_a_rule() {
    let layer = two_of_an_ip().with_rule(|rule| rule.cost(2));
    for (ip, expected) in [("192.0.2.1", 200), ("192.0.2.1", 429), ("192.0.2.2", 200)] {
        assert_eq!(status(&layer, ip).await, expected);
    }
}

#[tokio::test]
async fn shared_layers_share_buckets_of_one_name() {
    let store = Arc::new(MemoryBackend::new());
    let layer = |name: &str| two_of_an_ip().shared(name, store.clone());
    let (a, same, b) = (layer("a"), layer("a"), layer("b"));
    for (layer, expected) in [(&a, 200), (&same, 200), (&a, 429), (&same, 429), (&b, 200)] {
        assert_eq!(status(layer, "192.0.2.1").await, expected);
    }
}

/// A limit for addresses, and two for accounts.
fn three_limits() -> RateLimitLayer {
    let account = || HeaderId::new("x-account");
    two_of_an_ip()
        .limit("accounts", two().burst(4), account())
        .limit("writes", two(), account())
        .with_rule(|rule| rule.only_if(methods([Method::POST])).cost(2))
}

#[tokio::test]
async fn all_limits_are_charged_together_in_any_store() {
    for layer in [
        three_limits(),
        three_limits().shared("all", MemoryBackend::new()),
    ] {
        for (method, ip, account, expected) in [
            (Method::POST, "192.0.2.1", "a", 200),
            (Method::POST, "192.0.2.2", "a", 429),
            (Method::GET, "192.0.2.2", "a", 200),
            (Method::GET, "192.0.2.2", "b", 200),
            (Method::GET, "192.0.2.2", "b", 429),
            (Method::GET, "192.0.2.3", "a", 200),
            (Method::GET, "192.0.2.3", "a", 200),
            (Method::GET, "192.0.2.4", "a", 429),
        ] {
            let mut request = from_ip(ip);
            *request.method_mut() = method;
            let account = account.parse().unwrap();
            request.headers_mut().insert("x-account", account);
            let response = layer.layer(Hello).oneshot(request).await.unwrap();
            assert_eq!(response.status(), expected, "{ip}");
        }
    }
}

#[tokio::test]
async fn rules_are_kept_when_limits_are_added_or_shared() {
    let layer = two_of_an_ip()
        .rule(Rule::new("requests", Everyone))
        .limit("all", two(), Everyone);
    for layer in [
        layer.clone(),
        layer.shared("requests", MemoryBackend::new()),
    ] {
        for (ip, expected) in [("192.0.2.1", 200), ("192.0.2.2", 200), ("192.0.2.3", 429)] {
            assert_eq!(status(&layer, ip).await, expected, "{ip}");
        }
    }
}

/// Returns the message of the panic with which a layer rejects its configuration.
fn mistake(build: impl FnOnce() -> RateLimitLayer) -> String {
    let panic = catch_unwind(AssertUnwindSafe(build)).unwrap_err();
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().unwrap()).into(),
    }
}

#[test]
fn limits_that_cannot_be_added_panic_at_start() {
    let everyone = |layer: RateLimitLayer, name: &str| layer.limit(name, two(), Everyone);
    let shared = || two_of_an_ip().shared("a", MemoryBackend::new());
    let account = LimitName::unnumbered("accounts", IdFormat::RegId);
    let numbered = account.clone();
    for (mistake, expected) in [
        (
            mistake(|| everyone(two_of_an_ip(), "requests")),
            "`requests`",
        ),
        (mistake(|| everyone(three_limits(), "writes")), "`writes`"),
        (mistake(|| everyone(two_of_an_ip(), "2nd")), "2nd"),
        (
            mistake(|| two_of_an_ip().shared("", MemoryBackend::new())),
            "name",
        ),
        (
            mistake(|| two_of_an_ip().limit(account, two(), ClientIp::peer())),
            "another extractor",
        ),
        (
            mistake(|| two_of_an_ip().shared(numbered, MemoryBackend::new())),
            "another extractor",
        ),
        (
            mistake(|| everyone(three_limits(), "a").with_rule(|rule| rule.cost(3))),
            "at most 2 can ever pass",
        ),
        (mistake(|| everyone(shared(), "b")), "before `shared`"),
        (
            mistake(|| shared().with_rule(|rule| rule.cost(2))),
            "before `shared`",
        ),
        (
            mistake(|| {
                everyone(
                    RateLimitLayer::with_limiter(limiter(&Default::default())),
                    "b",
                )
            }),
            "add the limit to the limiter's `Limits`",
        ),
    ] {
        assert!(mistake.contains(expected), "{mistake}");
    }
}
