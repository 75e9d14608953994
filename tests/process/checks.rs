//! Each check is logged once when it is provoked, and never in ordinary use.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use http::{Method, Request, StatusCode};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    key::{Everyone, HeaderId, KeyExtractor, Proxies, ProxyHeader},
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, Log, from_ip};

const FORWARDING: &str = "forwarding-header-ignored";
const PREFLIGHT: &str = "preflight-refused";

type Body = http_body_util::Full<bytes::Bytes>;

fn limiter() -> Limiter {
    let limits = Limits::builder()
        .limit("requests", Limit::per_second(1_000_000))
        .limit("others", Limit::per_second(1_000_000));
    Limiter::new(limits.build().unwrap(), MemoryBackend::new())
}

fn by(rule: Rule) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter()).rule(rule)
}

async fn send(layer: &RateLimitLayer, request: Request<Body>) {
    let response = layer.layer(Hello).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

fn with(mut request: Request<Body>, headers: &[(&'static str, &str)]) -> Request<Body> {
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    request
}

/// Returns how often a check was logged.
fn times_logged(log: &Log, check: &str) -> usize {
    log.count(&format!("check=\"{check}\""))
}

/// A request as a browser sends it before one to another site.
fn preflight() -> Request<Body> {
    let mut request = from_ip("10.0.0.1");
    *request.method_mut() = Method::OPTIONS;
    let headers = [
        ("origin", "https://example.com"),
        ("access-control-request-method", "POST"),
    ];
    with(request, &headers)
}

async fn status(layer: &RateLimitLayer, request: Request<Body>) -> u16 {
    let response = layer.layer(Hello).oneshot(request).await;
    response.unwrap().status().as_u16()
}

#[tokio::test]
async fn refused_preflight_is_logged_once() {
    let denied = RateLimitLayer::new(Limit::per_day(1), Everyone);
    let without_id = by(Rule::new("requests", HeaderId::new("x-account")));
    let also_charged = without_id.clone().rule(Rule::new("others", Everyone));
    for (layer, expected) in [
        (denied, [200, 429, 429]),
        (without_id, [400; 3]),
        (also_charged, [400; 3]),
    ] {
        let (log, _guard) = Log::capture();
        for expected in expected {
            assert_eq!(status(&layer, preflight()).await, expected);
        }
        assert_eq!(times_logged(&log, PREFLIGHT), 1, "{log:?}");
    }
}

#[tokio::test]
async fn other_refusals_and_preflights_that_pass_are_ordinary() {
    let (log, _guard) = Log::capture();
    let denied = || RateLimitLayer::new(Limit::per_day(1), Everyone);
    let mut options = from_ip("10.0.0.1");
    *options.method_mut() = Method::OPTIONS;
    let simple = with(from_ip("10.0.0.1"), &[("origin", "https://example.com")]);
    for request in [options, simple] {
        let layer = denied();
        assert_eq!(status(&layer, preflight()).await, 200);
        assert_eq!(status(&layer, request).await, 429);
    }
    assert_eq!(times_logged(&log, PREFLIGHT), 0, "{log:?}");
}

#[tokio::test]
async fn ignored_proxy_header_is_logged_once() {
    for name in ["x-forwarded-for", "forwarded", "x-real-ip"] {
        let (log, _guard) = Log::capture();
        let layer = by(Rule::new("requests", ClientIp::peer()));
        for _ in 0..3 {
            send(&layer, with(from_ip("10.0.0.1"), &[(name, "203.0.113.7")])).await;
        }
        assert_eq!(times_logged(&log, FORWARDING), 1, "{name}: {log:?}");
        let line = format!("{log:?}");
        assert!(line.contains("Proxies::trusted"), "{line}");
    }
}

#[tokio::test]
async fn used_or_irrelevant_proxy_header_is_not_logged() {
    let (log, _guard) = Log::capture();
    let proxies = Proxies::trusted(["10.0.0.0/8"], ProxyHeader::XForwardedFor).unwrap();
    for rule in [
        Rule::new("requests", ClientIp::behind(proxies.clone())),
        Rule::new("requests", HeaderId::new("x-account")),
        Rule::new("requests", (ClientIp::behind(proxies), Everyone)),
        Rule::new("requests", Everyone),
    ] {
        let headers = [("x-forwarded-for", "203.0.113.7"), ("x-account", "a")];
        send(&by(rule), with(from_ip("10.0.0.1"), &headers)).await;
    }
    assert_eq!(times_logged(&log, FORWARDING), 0, "{log:?}");
}

/// Sends requests by agents from one address.
async fn many(rule: Rule, agents: u32, requests: u32) {
    let layer = by(rule);
    for i in 0..requests {
        let agent = format!("agent {}", i % agents);
        send(&layer, with(from_ip("10.0.0.1"), &[("user-agent", &agent)])).await;
    }
}

#[tokio::test]
async fn one_id_of_many_agents_is_logged_once_after_a_thousand_requests() {
    let (log, _guard) = Log::capture();
    many(Rule::new("requests", ClientIp::peer()), 1, 3000).await;
    many(Rule::new("requests", Everyone), 10, 3000).await;
    assert_eq!(
        times_logged(&log, "one-id"),
        0,
        "one client, and one bucket on purpose"
    );
    many(Rule::new("requests", ClientIp::peer()), 10, 999).await;
    assert_eq!(times_logged(&log, "one-id"), 0, "{log:?}");
    many(Rule::new("requests", ClientIp::peer()), 10, 1000).await;
    assert_eq!(times_logged(&log, "one-id"), 1, "{log:?}");
    many(Rule::new("requests", ClientIp::peer()), 10, 3000).await;
    assert_eq!(times_logged(&log, "one-id"), 2, "once for each layer");
}

#[test]
fn mistake_in_an_extractor_is_logged_once() {
    let gullible = Rule::new("requests", ClientIp::behind(Proxies::registry()));
    let account = HeaderId::new("x-account").or_else(ClientIp::peer());
    let colliding = Rule::new("requests", account);
    for (rule, check) in [(gullible, "everyone-trusted"), (colliding, "ids-collide")] {
        let (log, _guard) = Log::capture();
        let layer = by(rule);
        for _ in 0..3 {
            let _ = layer.layer(Hello);
        }
        assert_eq!(times_logged(&log, check), 1, "{log:?}");
    }
}
