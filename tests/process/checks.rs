//! Each check is provoked once and told once, and is silent in ordinary use.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use http::{Method, Request, StatusCode};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    check::{Check, Checks},
    id::IdFormat,
    key::{Everyone, HeaderId, Ipv6Range, Proxies, ProxyHeader},
    limit::LimitName,
    rule::{OnMissing, RuleError, paths},
    transaction::Mode,
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, Log, from_ip};

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

fn at(path: &'static str) -> Request<Body> {
    let mut request = from_ip("10.0.0.1");
    *request.uri_mut() = http::Uri::from_static(path);
    request
}

/// How often a check was told.
fn told(log: &Log, check: Check) -> usize {
    let code = format!("check=\"{}\"", check.code());
    log.count(&code)
}

fn nothing_told(log: &Log) {
    for check in Check::ALL {
        assert_eq!(told(log, *check), 0, "{log:?}");
    }
}

#[tokio::test]
async fn rule_that_no_request_meets_is_told_once() {
    let (log, _guard) = Log::capture();
    // Within a `nest`, the prefix is gone.
    let layer = by(Rule::new("others", Everyone).only_if(paths(["/api/login"])))
        .rule(Rule::new("requests", Everyone).only_if(paths(["/login"])));
    for i in 0..20_000 {
        let path = if i == 5_000 { "/login" } else { "/" };
        send(&layer, at(path)).await;
    }
    assert_eq!(told(&log, Check::RuleUnmet), 1, "{log:?}");
    let seen = "a rule of limit `others` matched none of 10000 requests";
    assert_eq!(log.count(seen), 1);
}

#[tokio::test]
async fn rules_that_requests_meet_are_ordinary() {
    let (log, _guard) = Log::capture();
    // One without an id is a rule that the request meets.
    let layer = by(Rule::new("requests", Ipv6Range::peer()))
        .rule(Rule::new("others", Everyone).skip_if(paths(["/health"])));
    let unmet = by(Rule::new("requests", Everyone).skip_if(paths(["/health"])));
    let off = unmet.checks(Checks::new().without(Check::RuleUnmet));
    for i in 0..10_000 {
        let path = if i == 9_999 { "/" } else { "/health" };
        send(&layer, at(path)).await;
        send(&off, at("/health")).await;
    }
    assert_eq!(told(&log, Check::RuleUnmet), 0, "{log:?}");
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
async fn preflight_that_is_refused_is_told_once() {
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
        assert_eq!(told(&log, Check::PreflightRefused), 1, "{log:?}");
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
    let off = denied().checks(Checks::new().without(Check::PreflightRefused));
    for expected in [200, 429] {
        assert_eq!(status(&off, preflight()).await, expected);
    }
    assert_eq!(told(&log, Check::PreflightRefused), 0, "{log:?}");
}

#[tokio::test]
async fn proxys_header_that_is_ignored_is_told_once() {
    const CHECK: Check = Check::ForwardingHeaderIgnored;
    for name in ["x-forwarded-for", "forwarded", "x-real-ip"] {
        let (log, _guard) = Log::capture();
        let layer = by(Rule::new("requests", ClientIp::peer()));
        for _ in 0..3 {
            send(&layer, with(from_ip("10.0.0.1"), &[(name, "203.0.113.7")])).await;
        }
        assert_eq!(told(&log, CHECK), 1, "{name}: {log:?}");
        let line = format!("{log:?}");
        assert!(
            line.contains(name) && line.contains("Proxies::trusted"),
            "{line}"
        );
    }
}

#[tokio::test]
async fn proxys_header_that_is_believed_or_does_not_matter_is_not_told() {
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
    nothing_told(&log);
    let by_peer = by(Rule::new("requests", ClientIp::peer()));
    let off = by_peer.checks(Checks::new().without(Check::ForwardingHeaderIgnored));
    send(
        &off,
        with(from_ip("10.0.0.1"), &[("forwarded", "for=203.0.113.7")]),
    )
    .await;
    nothing_told(&log);
}

/// Requests by ten agents from these addresses.
async fn many(layer: &RateLimitLayer, requests: u32, ip: impl Fn(u32) -> String, agents: u32) {
    for i in 0..requests {
        let agent = format!("agent {}", i % agents);
        send(layer, with(from_ip(&ip(i)), &[("user-agent", &agent)])).await;
    }
}

#[tokio::test]
async fn one_id_of_many_agents_is_told_once() {
    let (log, _guard) = Log::capture();
    let layer = by(Rule::new("requests", ClientIp::peer()));
    many(&layer, 3_000, |_| "10.0.0.1".into(), 10).await;
    assert_eq!(told(&log, Check::OneId), 1, "{log:?}");
    assert_eq!(told(&log, Check::IdPerRequest), 0);
}

#[tokio::test]
async fn one_client_a_few_and_everyone_on_purpose_are_ordinary() {
    let (log, _guard) = Log::capture();
    let one = "10.0.0.1".to_owned();
    let by_peer = || by(Rule::new("requests", ClientIp::peer()));
    // One client with one agent, several clients, and one bucket for all that is meant to be.
    many(&by_peer(), 3_000, |_| one.clone(), 1).await;
    many(&by_peer(), 3_000, |i| format!("10.0.0.{}", i / 900), 10).await;
    many(
        &by(Rule::new("requests", Everyone)),
        3_000,
        |_| one.clone(),
        10,
    )
    .await;
    let off = by_peer().checks(Checks::new().without(Check::OneId));
    many(&off, 3_000, |_| one.clone(), 10).await;
    nothing_told(&log);
}

#[tokio::test]
async fn id_that_never_comes_twice_is_told_once() {
    let (log, _guard) = Log::capture();
    let layer = by(Rule::new("requests", HeaderId::new("x-request-id")));
    let off = by(Rule::new("requests", HeaderId::new("x-request-id"))).checks(Checks::none());
    for i in 0..12_000 {
        let id = i.to_string();
        let request = || with(from_ip("10.0.0.1"), &[("x-request-id", &id)]);
        send(&layer, request()).await;
        send(&off, request()).await;
    }
    assert_eq!(told(&log, Check::IdPerRequest), 1, "{log:?}");
}

#[tokio::test]
async fn ids_of_which_some_come_again_are_ordinary() {
    let (log, _guard) = Log::capture();
    let layer = by(Rule::new("requests", HeaderId::new("x-request-id")));
    for i in 0..12_000 {
        let id = if i == 9_000 { 1 } else { i }.to_string();
        send(&layer, with(from_ip("10.0.0.1"), &[("x-request-id", &id)])).await;
    }
    nothing_told(&log);
}

#[tokio::test]
async fn id_that_never_comes_twice_is_told_though_some_have_none() {
    let (log, _guard) = Log::capture();
    let by_header = Rule::new("requests", HeaderId::new("x-request-id"));
    let layer = by(Rule::new("others", Everyone)).rule(by_header.on_missing(OnMissing::Skip));
    for i in 0..11_000 {
        let id = i.to_string();
        let headers = [("x-request-id", &*id)];
        let headers = if i % 4 == 0 { &[][..] } else { &headers };
        send(&layer, with(from_ip("10.0.0.1"), headers)).await;
    }
    assert_eq!(told(&log, Check::IdPerRequest), 1, "{log:?}");
}

#[tokio::test]
async fn those_without_an_id_and_routes_are_ordinary() {
    let (log, _guard) = Log::capture();
    let shared = Rule::new("requests", HeaderId::new("x-account")).on_missing(OnMissing::Shared);
    many(&by(shared), 3_000, |_| "10.0.0.1".into(), 10).await;
    #[cfg(feature = "axum")]
    {
        let by_route = Rule::new("requests", tollgate::key::MatchedPath);
        many(&by(by_route), 3_000, |_| "10.0.0.1".into(), 10).await;
    }
    nothing_told(&log);
}

#[tokio::test]
async fn rule_in_two_layers_is_told_once() {
    let (log, _guard) = Log::capture();
    let limiter = limiter();
    let rule = || Rule::new("requests", ClientIp::peer());
    let layer = |rule| RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let twice = layer(rule()).layer(layer(rule()).layer(Hello));
    for _ in 0..3 {
        twice.clone().oneshot(from_ip("10.0.0.1")).await.unwrap();
    }
    assert_eq!(told(&log, Check::ChargedTwice), 1, "{log:?}");
}

#[tokio::test]
async fn bucket_is_the_same_however_its_id_is_written() {
    let (log, _guard) = Log::capture();
    let name = LimitName::new("requests", 1, IdFormat::IpAddress);
    let limits = Limits::builder().limit(name, Limit::per_second(1_000_000));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let layer = |header: &'static str| {
        let rule = Rule::new("requests", HeaderId::new(header));
        RateLimitLayer::with_limiter(limiter.clone()).rule(rule)
    };
    let twice = layer("x-outer").layer(layer("x-inner").layer(Hello));
    let ids = [("x-outer", "2001:db8::1"), ("x-inner", "2001:0DB8:0::1")];
    twice
        .oneshot(with(from_ip("10.0.0.1"), &ids))
        .await
        .unwrap();
    assert_eq!(told(&log, Check::ChargedTwice), 1, "{log:?}");
    // One client that writes its id in two ways.
    let layer = layer("x-outer");
    for i in 0..3_000_u32 {
        let zeros = "0".repeat(1 + usize::from(i % 2 == 0));
        let agent = format!("agent {}", i % 10);
        let id = format!("2001:db8::{zeros}7");
        let headers = [("x-outer", &*id), ("user-agent", &*agent)];
        send(&layer, with(from_ip("10.0.0.1"), &headers)).await;
    }
    assert_eq!(told(&log, Check::OneId), 1, "{log:?}");
}

#[tokio::test]
async fn other_rules_in_nested_layers_are_ordinary() {
    let (log, _guard) = Log::capture();
    let shared = limiter();
    let layer = |limiter: &Limiter, rule| RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let rule = |limit: &'static str| Rule::new(limit, ClientIp::peer());
    let nested = [
        layer(&shared, rule("others")).layer(layer(&shared, rule("requests")).layer(Hello)),
        // The same name, of another limiter.
        layer(&limiter(), rule("requests")).layer(layer(&limiter(), rule("requests")).layer(Hello)),
        // Outside, it is only checked.
        layer(&shared, rule("requests").mode(Mode::CheckOnly))
            .layer(layer(&shared, rule("requests")).layer(Hello)),
        // The same limit, for another id.
        layer(&shared, Rule::new("requests", Ipv6Range::peer()))
            .layer(layer(&shared, rule("requests")).layer(Hello)),
    ];
    for service in nested {
        service.oneshot(from_ip("2001:db8::1")).await.unwrap();
    }
    nothing_told(&log);
}

#[test]
fn trust_in_everyone_is_told_once_or_refused() {
    let (log, _guard) = Log::capture();
    let gullible = || Rule::new("requests", ClientIp::behind(Proxies::registry()));
    let layer = by(gullible()).rule(Rule::new("others", Ipv6Range::behind(Proxies::registry())));
    for _ in 0..3 {
        let _ = layer.layer(Hello);
    }
    assert_eq!(told(&log, Check::EveryoneTrusted), 1, "{log:?}");
    // It may be switched off after the rule, too.
    let _ = by(gullible()).checks(Checks::none()).layer(Hello);
    let strict = RateLimitLayer::with_limiter(limiter()).checks(Checks::new().strict());
    let error = strict.clone().try_rule(gullible()).unwrap_err();
    assert!(matches!(error, RuleError::Check(_)));
    assert!(
        error.to_string().starts_with("everyone-trusted: "),
        "{error}"
    );
    let checks = Checks::new().strict().without(Check::EveryoneTrusted);
    let layer = RateLimitLayer::with_limiter(limiter()).checks(checks);
    assert!(layer.try_rule(gullible()).is_ok());
    let proxies = Proxies::hops(1, ProxyHeader::XForwardedFor);
    assert!(
        strict
            .try_rule(Rule::new("requests", ClientIp::behind(proxies)))
            .is_ok()
    );
    assert_eq!(told(&log, Check::EveryoneTrusted), 1);
}

#[test]
#[should_panic(expected = "everyone-trusted: the rule of limit `requests` trusts proxy headers")]
fn strict_checks_after_the_rule_panic() {
    let gullible = Rule::new("requests", ClientIp::behind(Proxies::registry()));
    let _ = by(gullible).checks(Checks::new().strict());
}
