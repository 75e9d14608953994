//! Layers with limits of their own, which take one line each.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use http::{Method, Response, StatusCode};
use tollgate::{
    ClientIp, Limit, MemoryBackend, RateLimitLayer, Rule,
    id::IdFormat,
    key::{Everyone, HeaderId},
    limit::LimitName,
    rule::{RuleError, methods},
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, from_ip, send};

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

fn policy<B>(response: &Response<B>) -> &str {
    response.headers()["ratelimit-policy"].to_str().unwrap()
}

/// What a layer says of how it was built, as it panics.
fn mistake(build: impl FnOnce() -> RateLimitLayer) -> String {
    let panic = catch_unwind(AssertUnwindSafe(build)).unwrap_err();
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().unwrap()).into(),
    }
}

#[tokio::test]
async fn limit_is_named_requests_or_as_it_is_told() {
    assert_eq!(
        policy(&send(&two_of_an_ip(), "192.0.2.1").await),
        r#""requests";q=2;w=172800"#
    );
    let named = two_of_an_ip().named("logins");
    assert_eq!(
        policy(&send(&named, "192.0.2.1").await),
        r#""logins";q=2;w=172800"#
    );
    // A name may say more, in headers and in what its ids are.
    let name = LimitName::new("logins", 7, IdFormat::IpAddress).description("attempts to log in");
    let named = two_of_an_ip().named(name);
    assert_eq!(named.limiter().limits().names(), ["logins"]);
    assert_eq!(
        policy(&send(&named, "192.0.2.1").await),
        r#""logins";q=2;w=172800"#
    );
}

#[tokio::test]
async fn clones_share_their_memory_and_layers_do_not() {
    let layer = two_of_an_ip();
    let (clone, other) = (layer.clone(), two_of_an_ip());
    for layer in [&layer, &clone] {
        assert_eq!(status(layer, "192.0.2.1").await, 200);
    }
    for (layer, expected) in [(&layer, 429), (&clone, 429), (&other, 200)] {
        assert_eq!(status(layer, "192.0.2.1").await, expected);
    }
    // A name alone shares nothing either, and a clone that gets one leaves the others as they are.
    let named = layer.clone().named("requests");
    assert_eq!(status(&named, "192.0.2.1").await, 200);
    assert_eq!(status(&layer, "192.0.2.1").await, 429);
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

#[tokio::test]
async fn other_rules_are_added_to_the_same_limiter() {
    let layer = two_of_an_ip()
        .named("both")
        .rule(Rule::new("both", Everyone).cost(1));
    let mut statuses = Vec::new();
    for ip in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        statuses.push(status(&layer, ip).await.as_u16());
    }
    assert_eq!(statuses, [200, 200, 429]);
}

/// Sends a request of a client with an account.
async fn status_of(layer: &RateLimitLayer, method: Method, ip: &str, account: &str) -> StatusCode {
    let mut request = from_ip(ip);
    *request.method_mut() = method;
    let account = account.parse().unwrap();
    request.headers_mut().insert("x-account", account);
    let response = layer.layer(Hello).oneshot(request).await.unwrap();
    response.status()
}

fn three_limits() -> RateLimitLayer {
    let account = || HeaderId::new("x-account");
    two_of_an_ip()
        .limit("accounts", two().burst(4), account())
        .limit_with("writes", two(), account(), |rule| {
            rule.only_if(methods([Method::POST])).cost(2)
        })
}

#[tokio::test]
async fn each_limit_takes_one_line_and_all_are_charged_together() {
    let layer = three_limits();
    assert_eq!(
        layer.limiter().limits().names(),
        ["accounts", "requests", "writes"]
    );
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
        let status = status_of(&layer, method, ip, account).await;
        assert_eq!(status, expected, "{ip} {account}");
    }
}

#[tokio::test]
async fn order_of_limits_names_and_rules_does_not_matter() {
    let store = Arc::new(MemoryBackend::new());
    for (layer, names) in [
        (three_limits(), ["accounts", "requests", "writes"]),
        (three_limits().named("all"), ["accounts", "all", "writes"]),
        (
            three_limits().shared("all", store.clone()),
            ["accounts", "all", "writes"],
        ),
    ] {
        assert_eq!(layer.limiter().limits().names(), names);
    }
    let layer = two_of_an_ip().rule(Rule::new("requests", Everyone)).limit(
        "accounts",
        two(),
        HeaderId::new("x-account"),
    );
    for (ip, account, expected) in [
        ("192.0.2.1", "a", 200),
        ("192.0.2.2", "a", 200),
        ("192.0.2.3", "b", 429),
    ] {
        let status = status_of(&layer, Method::GET, ip, account).await;
        assert_eq!(status, expected, "{ip}");
    }
}

#[test]
fn limits_that_cannot_be_added_are_refused_at_start() {
    let everyone = |layer: RateLimitLayer, name: &str| layer.limit(name, two(), Everyone);
    let limiter = || two_of_an_ip().limiter().clone();
    let account = LimitName::unnumbered("accounts", IdFormat::RegId);
    for (mistake, expected) in [
        (
            mistake(|| everyone(two_of_an_ip(), "requests")),
            "`requests`",
        ),
        (mistake(|| everyone(three_limits(), "writes")), "`writes`"),
        (mistake(|| three_limits().named("writes")), "`writes`"),
        (mistake(|| everyone(two_of_an_ip(), "2nd")), "2nd"),
        (
            mistake(|| two_of_an_ip().limit(account, two(), ClientIp::peer())),
            "another extractor",
        ),
        (
            mistake(|| everyone(two_of_an_ip().shared("a", MemoryBackend::new()), "b")),
            "before `shared`",
        ),
        (
            mistake(|| everyone(RateLimitLayer::with_limiter(limiter()), "b")),
            "layers of `RateLimitLayer::new`",
        ),
    ] {
        assert!(mistake.contains(expected), "{mistake}");
    }
    let repeated = two_of_an_ip().try_limit("requests", two(), Everyone, |rule| rule);
    assert!(
        matches!(repeated, Err(RuleError::Limits(_))),
        "{repeated:?}"
    );
    let costly = two_of_an_ip().try_limit("a", two(), Everyone, |rule| rule.cost(3));
    assert!(matches!(costly, Err(RuleError::Limiter(_))), "{costly:?}");
}

#[test]
fn what_cannot_be_named_is_refused_at_start() {
    let late = "call it directly after them, before `rule`";
    let everyone = || Rule::new("requests", Everyone);
    for (mistake, expected) in [
        (mistake(|| two_of_an_ip().named("2nd")), "2nd"),
        (
            mistake(|| two_of_an_ip().shared("", MemoryBackend::new())),
            "name",
        ),
        (
            mistake(|| two_of_an_ip().rule(everyone()).named("late")),
            late,
        ),
        (
            mistake(|| two_of_an_ip().shared("a", MemoryBackend::new()).named("b")),
            late,
        ),
        (
            mistake(|| {
                let limiter = two_of_an_ip().limiter().clone();
                RateLimitLayer::with_limiter(limiter).named("a")
            }),
            late,
        ),
    ] {
        assert!(mistake.contains(expected), "{mistake}");
    }
    // What is set in between does no harm.
    let layer = RateLimitLayer::new(two(), HeaderId::new("x-account"));
    let _ = layer.extensions(false).named("a").named("b");
}

#[test]
fn name_has_to_fit_the_rules() {
    for (mistake, expected) in [
        (
            mistake(|| {
                let address = LimitName::unnumbered("a", IdFormat::IpAddress);
                RateLimitLayer::new(two(), ClientIp::peer().clone())
                    .named(address)
                    .rule(Rule::new("A", Everyone))
            }),
            "did you mean `a`?",
        ),
        (
            mistake(|| {
                let account = LimitName::unnumbered("accounts", IdFormat::RegId);
                RateLimitLayer::new(two(), ClientIp::peer()).named(account)
            }),
            "another extractor",
        ),
    ] {
        assert!(mistake.contains(expected), "{mistake}");
    }
}

#[tokio::test]
async fn limits_a_plain_hyper_server() {
    use hyper::{body::Incoming, server::conn::http1, service::service_fn};
    use hyper_util::{
        client::legacy::Client,
        rt::{TokioExecutor, TokioIo},
    };

    let limited = RateLimitLayer::new(two(), ClientIp::peer()).layer(Hello);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let limited = limited.clone();
            let service = service_fn(move |mut request: http::Request<Incoming>| {
                request.extensions_mut().insert(peer);
                limited.clone().oneshot(request)
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    let client =
        Client::builder(TokioExecutor::new()).build_http::<http_body_util::Empty<bytes::Bytes>>();
    let uri: http::Uri = format!("http://{address}/").parse().unwrap();
    for (expected, left) in [(200, "1"), (200, "0"), (429, "0")] {
        let response = client.get(uri.clone()).await.unwrap();
        assert_eq!(response.status(), expected);
        let field = response.headers()["ratelimit"].to_str().unwrap();
        assert!(
            field.starts_with(&format!("\"requests\";r={left};")),
            "{field}"
        );
        assert_eq!(
            response.headers().contains_key("retry-after"),
            expected == 429
        );
    }
}
