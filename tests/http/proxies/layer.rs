//! What the layer makes of a request that has no client.

use std::convert::Infallible;

use http::{Request, Response, StatusCode, request::Parts};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, clock::ManualClock,
    key::ProxyHeader, rule::OnMissing,
};
use tower::{Layer, ServiceExt, service_fn};

use super::{XFF, lines, trusted};

/// What the requests are answered, one after another, at 2 at once.
async fn statuses(rule: Rule, requests: &[Parts]) -> Vec<StatusCode> {
    let limit = Limit::per_second(1).burst(2);
    let limits = Limits::builder().limit("requests", limit).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default());
    let layer = RateLimitLayer::with_limiter(limiter).rule(rule);
    let answer = |_| async { Ok::<_, Infallible>(Response::new(String::new())) };
    let mut statuses = Vec::new();
    for parts in requests {
        let request = Request::from_parts(parts.clone(), String::new());
        let response = layer.layer(service_fn(answer)).oneshot(request).await;
        statuses.push(response.unwrap().status());
    }
    statuses
}

fn rule() -> Rule {
    Rule::new(
        "requests",
        ClientIp::behind(trusted(ProxyHeader::XForwardedFor)),
    )
}

#[tokio::test]
async fn clients_behind_one_proxy_have_a_bucket_each() {
    let requests = [
        "203.0.113.7",
        "203.0.113.8",
        "6.6.6.6, 203.0.113.7",
        "7.7.7.7, 203.0.113.7",
    ]
    .map(|value| lines("10.0.0.1", XFF, &[value]));
    let expected = [
        StatusCode::OK,
        StatusCode::OK,
        StatusCode::OK,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    assert_eq!(statuses(rule(), &requests).await, expected);
}

#[tokio::test]
async fn rule_decides_what_a_missing_client_means() {
    let requests = vec![lines("10.0.0.1", XFF, &["unknown"]); 3];
    let refused = statuses(rule(), &requests).await;
    assert_eq!(refused, [StatusCode::INTERNAL_SERVER_ERROR; 3]);
    let skipped = statuses(rule().on_missing(OnMissing::Skip), &requests).await;
    assert_eq!(skipped, [StatusCode::OK; 3]);
    let shared = statuses(rule().on_missing(OnMissing::Shared), &requests).await;
    assert_eq!(shared[2], StatusCode::TOO_MANY_REQUESTS);
}
