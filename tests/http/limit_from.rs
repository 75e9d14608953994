//! A limit that the request brings holds in the place of the default, in everything that is decided and shown.

use std::time::Duration;

use http::{Request, Response, request::Parts};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, clock::ManualClock, key::HeaderId,
    limit::LimitsBuilder, quota::Per, tiers::Tier,
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, Log, from_ip, text};

type Body = http_body_util::Full<bytes::Bytes>;

fn customer() -> HeaderId {
    HeaderId::new("x-customer").shown()
}

fn plan(parts: &Parts) -> Option<Limit> {
    parts.extensions.get().cloned()
}

fn limits() -> LimitsBuilder {
    Limits::builder().limit("requests", Limit::per_hour(1))
}

/// A layer whose rule takes its limit from the request.
fn layer_of(limits: &LimitsBuilder, rule: Rule) -> RateLimitLayer {
    let backend = MemoryBackend::new();
    let limiter = Limiter::new(limits.build().unwrap(), backend).with_clock(ManualClock::default());
    RateLimitLayer::with_limiter(limiter).rule(rule.limit_from(plan))
}

fn layer() -> RateLimitLayer {
    layer_of(&limits(), Rule::new("requests", customer()))
}

fn request(customer: &str, plan: Option<Limit>) -> Request<Body> {
    let mut request = from_ip("203.0.113.7");
    let headers = request.headers_mut();
    headers.insert("x-customer", customer.parse().unwrap());
    if let Some(plan) = plan {
        request.extensions_mut().insert(plan);
    }
    request
}

async fn sent(layer: &RateLimitLayer, request: Request<Body>) -> Response<impl http_body::Body> {
    layer.layer(Hello).oneshot(request).await.unwrap()
}

async fn statuses(layer: &RateLimitLayer, customer: &str, plan: Option<Limit>) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let response = sent(layer, request(customer, plan.clone())).await;
        statuses.push(response.status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn each_customer_has_the_limit_that_its_request_brings() {
    let layer = layer();
    let window = Limit::window(2, Duration::from_secs(60));
    let quota = Limit::quota(3, Per::Day);
    for (customer, plan, expected) in [
        ("without", None, [200, 429, 429, 429]),
        ("window", Some(window), [200, 200, 429, 429]),
        ("quota", Some(quota), [200, 200, 200, 429]),
        ("unlimited", Some(Limit::UNLIMITED), [200; 4]),
        ("blocked", Some(Limit::BLOCKED), [429; 4]),
    ] {
        assert_eq!(
            statuses(&layer, customer, plan).await,
            expected,
            "{customer}"
        );
    }
}

#[tokio::test]
async fn fields_and_refusals_show_the_values_of_the_request() {
    let layer = layer();
    let plan = || Some(Limit::window(2, Duration::from_secs(60)));
    let response = sent(&layer, request("a", plan())).await;
    assert_eq!(
        response.headers()["ratelimit-policy"],
        "\"requests\";q=2;w=60"
    );
    assert_eq!(response.headers()["ratelimit"], "\"requests\";r=1;t=60");
    sent(&layer, request("a", plan())).await;
    let refusal = layer.layer(Hello).oneshot(request("a", plan()));
    let refusal = text(refusal.await.unwrap()).await;
    assert!(refusal.contains("(2 in any minute)"), "{refusal}");
}

#[tokio::test]
async fn limit_that_the_rule_cannot_take_is_refused_and_logged_once() {
    let (log, _guard) = Log::capture();
    let refunds = Rule::new("requests", customer()).refund_if(|_| true);
    let layer = layer_of(&limits(), refunds);
    let tiers = Limit::tiers([Tier::new(5, Duration::from_secs(1))]).unwrap();
    assert_eq!(statuses(&layer, "a", Some(tiers)).await, [500; 4]);
    assert_eq!(
        log.count("grants of tiers cannot be refunded: remove `refund_if`"),
        1,
        "{log:?}"
    );
    assert_eq!(
        statuses(&layer, "b", Some(Limit::per_hour(2))).await,
        [200; 4]
    );
}

#[tokio::test]
async fn permits_are_those_of_the_request() {
    let layer = layer();
    let plan = || Some(Limit::concurrent(1));
    let held = layer
        .layer(Hello)
        .oneshot(request("a", plan()))
        .await
        .unwrap();
    assert_eq!(sent(&layer, request("a", plan())).await.status(), 429);
    drop(held);
    assert_eq!(sent(&layer, request("a", plan())).await.status(), 200);
}
