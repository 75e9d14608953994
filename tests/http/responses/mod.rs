//! What clients see: statuses, headers and bodies.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod accept;
mod cors;
mod decided;
mod dialects;
mod exact;
#[cfg(feature = "axum")]
mod into_response;
mod problems;
mod structured;
mod unauthorized;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, Version, header};
use http_body::Body;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::ManualClock,
    key::{Everyone, HeaderId},
    response::{Grpc, Refusal},
    tiers::Tier,
    transaction::Mode,
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, as_grpc, from_ip, layer, limiter, limiter_of, send, text};

fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn denied_response_is_a_problem_document() {
    let layer = layer(&limiter(&ManualClock::default()));
    for _ in 0..20 {
        assert_eq!(send(&layer, "172.16.123.1").await.status(), StatusCode::OK);
    }
    let response = send(&layer, "172.16.123.1").await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let headers = response.headers().clone();
    assert_eq!(value(&headers, "retry-after"), Some("1"));
    assert_eq!(value(&headers, "cache-control"), Some("no-store"));
    assert_eq!(
        value(&headers, "content-type"),
        Some("application/problem+json")
    );
    assert_eq!(value(&headers, "ratelimit"), Some("\"requests\";r=0;t=1"));
    assert_eq!(
        value(&headers, "ratelimit-policy"),
        Some("\"requests\";q=20;w=2")
    );
    let body = text(response).await;
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&body).unwrap(),
        serde_json::json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Quota Exceeded",
            "status": 429,
            "detail": "too many requests (10 per 1s, 20 at once) from 172.16.123.1: retry in 1 s",
            "violated-policies": ["requests"],
        })
    );
    assert_eq!(send(&layer, "172.16.123.2").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn retry_after_rounds_up_and_is_at_least_one() {
    let cases = [
        (Limit::new(1, 5, Duration::from_secs(1)), 0, "1"),
        (Limit::new(1, 1, Duration::from_secs(1)), 0, "1"),
        (Limit::new(1, 1, Duration::from_millis(1001)), 0, "2"),
        (Limit::new(1, 1, Duration::from_secs(60)), 0, "60"),
        (Limit::new(1, 1, Duration::from_secs(60)), 1, "60"),
        (Limit::new(1, 1, Duration::from_secs(60)), 1_000_001, "59"),
    ];
    for (limit, advance_us, secs) in cases {
        let clock = ManualClock::default();
        let layer = layer(&limiter_of(&clock, limit.unwrap()));
        send(&layer, "203.0.113.7").await;
        clock.advance(Duration::from_micros(advance_us));
        let denied = send(&layer, "203.0.113.7").await;
        assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(value(denied.headers(), "retry-after"), Some(secs));
    }
}

#[tokio::test]
async fn full_bucket_promises_no_more() {
    let layer = RateLimitLayer::with_limiter(limiter(&ManualClock::default()))
        .rule(Rule::new("requests", ClientIp::peer()).cost(0));
    let response = send(&layer, "203.0.113.7").await;
    assert_eq!(
        value(response.headers(), "ratelimit"),
        Some("\"requests\";r=20")
    );
}

fn two_limits() -> Limiter {
    let limits = Limits::builder()
        .limit("per-ip", Limit::per_minute(3))
        .limit("all", Limit::per_hour(100).burst(5))
        .name("off")
        .build()
        .unwrap();
    Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default())
}

#[tokio::test]
async fn every_limit_is_listed_and_a_denial_names_the_one_that_denies() {
    let layer = RateLimitLayer::with_limiter(two_limits())
        .rule(Rule::new("per-ip", ClientIp::peer()))
        .rule(Rule::new("off", ClientIp::peer()))
        .rule(Rule::new("all", Everyone));
    let allowed = send(&layer, "203.0.113.7").await;
    let policy = Some("\"per-ip\";q=3;w=60, \"all\";q=5;w=180");
    assert_eq!(value(allowed.headers(), "ratelimit-policy"), policy);
    assert_eq!(
        value(allowed.headers(), "ratelimit"),
        Some("\"per-ip\";r=2;t=20, \"all\";r=4;t=36")
    );
    for _ in 0..2 {
        send(&layer, "203.0.113.7").await;
    }
    let denied = send(&layer, "203.0.113.7").await;
    assert_eq!(value(denied.headers(), "ratelimit-policy"), policy);
    assert_eq!(
        value(denied.headers(), "ratelimit"),
        Some("\"per-ip\";r=0;t=20")
    );
    assert_eq!(value(denied.headers(), "retry-after"), Some("20"));
    // The second limit was not charged for the denied request.
    let other = send(&layer, "203.0.113.8").await;
    assert_eq!(
        value(other.headers(), "ratelimit"),
        Some("\"per-ip\";r=2;t=20, \"all\";r=1;t=36")
    );
}

#[tokio::test]
async fn custom_response_keeps_what_it_sets() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_minute(1));
    let layer = layer(&limiter).respond_with(|refusal: &Refusal<'_>| {
        let denial = refusal.denial().unwrap();
        let path = refusal.request.uri.path();
        let text = format!("{} {} {path}", denial.limit, denial.id);
        Response::builder()
            .status(StatusCode::SERVICE_UNAVAILABLE)
            .header(header::CACHE_CONTROL, "private")
            .body(Bytes::from(text))
            .unwrap()
    });
    send(&layer, "203.0.113.7").await;
    let denied = send(&layer, "203.0.113.7").await;
    assert_eq!(denied.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(value(denied.headers(), "cache-control"), Some("private"));
    assert_eq!(value(denied.headers(), "retry-after"), Some("60"));
    assert_eq!(
        value(denied.headers(), "ratelimit"),
        Some("\"requests\";r=0;t=60")
    );
    assert_eq!(text(denied).await, "requests 203.0.113.7 /");
}

#[tokio::test]
async fn grpc_request_is_told_by_grpc_status() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_minute(1));
    let layer = layer(&limiter)
        .respond_with(|_: &Refusal<'_>| -> Response<Bytes> { panic!("not for gRPC") });
    send(&layer, "203.0.113.7").await;
    for content_type in [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc;charset=utf-8",
        "application/grpc-web",
        "application/grpc-web+proto",
        "application/grpc-web-text;charset=utf-8",
    ] {
        let request = as_grpc(from_ip("203.0.113.7"), content_type);
        let response = layer.layer(Hello).oneshot(request).await.unwrap();
        let headers = response.headers();
        assert_eq!(response.status(), StatusCode::OK, "{content_type}");
        assert_eq!(value(headers, "grpc-status"), Some("8"));
        let message = "too many requests (1 per 1m0s, 1 at once) from 203.0.113.7: retry in 60 s";
        assert_eq!(value(headers, "grpc-message"), Some(message));
        assert_eq!(value(headers, "retry-after"), Some("60"));
        // gRPC-Web has types of its own.
        assert_eq!(value(headers, "content-type"), Some(content_type));
        assert!(response.body().is_end_stream(), "trailers only");
    }
}

/// Requests that are no gRPC: the method, the version, `te` and the content type.
const NO_GRPC: [&str; 10] = [
    "GET 1.1 - application/grpc",
    "GET 2 trailers application/grpc",
    "POST 1.1 trailers application/grpc",
    "POST 2 - application/grpc",
    "POST 2 gzip application/grpc",
    "POST 2 trailers application/grpcx",
    "POST 2 trailers application/grpc-foo",
    "GET 1.1 - application/grpc-web",
    "PUT 2 - application/grpc-web-text",
    "POST 1.1 - application/grpc-website",
];

/// Behind a proxy that asks this server whether to let a request through, 200 is a yes.
#[tokio::test]
async fn client_does_not_choose_its_status_by_a_content_type() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_minute(1));
    let layer = layer(&limiter);
    send(&layer, "203.0.113.7").await;
    for case in NO_GRPC {
        let words: Vec<_> = case.split(' ').collect();
        let [method, version, te, content_type] = words[..] else {
            panic!("{case}");
        };
        let mut request = as_grpc(from_ip("203.0.113.7"), content_type);
        *request.method_mut() = method.parse().unwrap();
        if version == "1.1" {
            *request.version_mut() = Version::HTTP_11;
        }
        match te {
            "-" => request.headers_mut().remove(header::TE),
            te => request
                .headers_mut()
                .insert(header::TE, te.parse().unwrap()),
        };
        let response = layer.layer(Hello).oneshot(request).await.unwrap();
        assert_eq!(response.status(), 429, "{case}");
    }
}

#[tokio::test]
async fn page_that_speaks_grpc_web_may_use_any_version() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_minute(1));
    let layer = layer(&limiter);
    send(&layer, "203.0.113.7").await;
    let mut request = as_grpc(from_ip("203.0.113.7"), "application/grpc-web+proto");
    *request.version_mut() = Version::HTTP_11;
    request.headers_mut().remove(header::TE);
    let response = layer.layer(Hello).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test]
async fn layer_says_which_requests_are_grpc() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_minute(1));
    let layer = layer(&limiter);
    send(&layer, "203.0.113.7").await;
    let http = || from_ip("203.0.113.7");
    let grpc = || as_grpc(http(), "application/grpc+proto");
    for (switch, of_http, of_grpc) in [
        (Grpc::Auto, 429, 200),
        (Grpc::Always, 200, 200),
        (Grpc::Never, 429, 429),
    ] {
        for (request, status) in [(http(), of_http), (grpc(), of_grpc)] {
            let service = layer.clone().grpc(switch).layer(Hello);
            let response = service.oneshot(request).await.unwrap();
            assert_eq!(response.status(), status, "{switch:?}");
            let code = value(response.headers(), "grpc-status");
            assert_eq!(code.is_some(), status == 200, "{switch:?}");
        }
    }
    // The content type of the answer is gRPC's, whatever the request says.
    let mut page = http();
    let html = "text/html".parse().unwrap();
    page.headers_mut().insert(header::CONTENT_TYPE, html);
    let service = layer.grpc(Grpc::Always).layer(Hello);
    let response = service.oneshot(page).await.unwrap();
    let content_type = value(response.headers(), "content-type");
    assert_eq!(content_type, Some("application/grpc"));
}

#[tokio::test]
async fn missing_id_is_refused_with_the_reason() {
    let layer = RateLimitLayer::with_limiter(limiter(&ManualClock::default()))
        .rule(Rule::new("requests", HeaderId::new("x-account-id")));
    let refused = send(&layer, "203.0.113.7").await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert_eq!(value(refused.headers(), "cache-control"), Some("no-store"));
    assert_eq!(value(refused.headers(), "ratelimit"), None);
    let body: serde_json::Value = serde_json::from_str(&text(refused).await).unwrap();
    assert_eq!(body["title"], "Bad Request");
    let message = body["detail"].as_str().unwrap();
    assert!(
        message.starts_with("header `x-account-id` is missing"),
        "{message}"
    );
}

#[tokio::test]
async fn rules_that_do_not_vote_neither_deny_nor_hide_others() {
    let limits = Limits::builder()
        .limit("votes", Limit::per_minute(3))
        .limit("extra", Limit::per_minute(1))
        .limit("debt", Limit::per_minute(5))
        .build()
        .unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default());
    let layer = RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("votes", Everyone))
        .rule(Rule::new("extra", Everyone).mode(Mode::SpendOnly))
        .rule(Rule::new("debt", Everyone).mode(Mode::Debit));
    send(&layer, "203.0.113.7").await;
    let allowed = send(&layer, "203.0.113.7").await;
    assert_eq!(
        value(allowed.headers(), "ratelimit"),
        Some("\"votes\";r=1;t=20, \"extra\";r=0;t=60, \"debt\";r=3;t=12")
    );
    send(&layer, "203.0.113.7").await;
    let denied = send(&layer, "203.0.113.7").await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        value(denied.headers(), "ratelimit"),
        Some("\"votes\";r=0;t=20")
    );
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Two per ten seconds; a burst of three for twenty, and then half a minute without another.
fn tiers() -> Limit {
    let lowest = Tier::new(2, secs(10)).active(secs(10));
    let burst = Tier::new(3, secs(20)).active(secs(20)).cooldown(secs(30));
    Limit::tiers([lowest, burst]).unwrap()
}

#[tokio::test]
async fn fields_are_of_the_tier_in_force() {
    let clock = ManualClock::default();
    let layer = layer(&limiter_of(&clock, tiers()));
    // (advance, status, the policy, the state, when to come back)
    let steps = [
        (0, 200, "q=2;w=10", "r=1;t=11", None),
        (1, 200, "q=2;w=10", "r=0;t=10", None),
        (1, 200, "q=3;w=20", "r=2;t=21", None),
        (8, 200, "q=3;w=20", "r=1;t=13", None),
        (0, 200, "q=3;w=20", "r=0;t=13", None),
        (1, 429, "q=3;w=20", "r=0;t=12", Some("12")),
        (11, 429, "q=3;w=20", "r=0;t=1", Some("1")),
        (1, 200, "q=2;w=10", "r=1;t=11", None),
        (0, 200, "q=2;w=10", "r=0;t=11", None),
        (0, 429, "q=2;w=10", "r=0;t=11", Some("11")),
    ];
    for (i, (advance, status, policy, state, retry)) in steps.into_iter().enumerate() {
        clock.advance(secs(advance));
        let response = send(&layer, "203.0.113.7").await;
        assert_eq!(response.status(), status, "step {i}");
        let headers = response.headers();
        let [policy, state] = [policy, state].map(|text| format!("\"requests\";{text}"));
        assert_eq!(
            value(headers, "ratelimit-policy"),
            Some(&*policy),
            "step {i}"
        );
        assert_eq!(value(headers, "ratelimit"), Some(&*state), "step {i}");
        assert_eq!(value(headers, "retry-after"), retry, "step {i}");
    }
}

#[tokio::test]
async fn what_never_passes_is_not_asked_to_come_back() {
    let life = Limit::tiers([Tier::new(1, Tier::FOREVER)]).unwrap();
    let layer = layer(&limiter_of(&ManualClock::default(), life));
    let fields = |response: &Response<_>| {
        let headers = response.headers().clone();
        ["ratelimit-policy", "ratelimit", "retry-after"]
            .map(|name| value(&headers, name).map(str::to_owned))
    };
    let allowed = send(&layer, "203.0.113.7").await;
    let policy = Some("\"requests\";q=1".to_owned());
    let state = Some("\"requests\";r=0".to_owned());
    assert_eq!(fields(&allowed), [policy.clone(), state.clone(), None]);
    let denied = send(&layer, "203.0.113.7").await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(fields(&denied), [policy, state, None]);
}
