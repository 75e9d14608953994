//! Blocked clients: the answers to them, and that nothing else changes.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, clock::ManualClock,
    id::IdFormat, key::HeaderId, limit::LimitName, response::Headers, rule::RuleError,
    transaction::Mode,
};
use tower::{Layer, ServiceExt};

use super::support::{Hello, Log, as_grpc, from_ip, send, text};

const IP: &str = "203.0.113.7";
const REASON: &str = "this address is paused after reports of abuse";

fn limiter(clock: &ManualClock) -> Limiter {
    let addresses = |name: &str, number| LimitName::new(name, number, IdFormat::IpAddress);
    let limits = Limits::builder()
        .limit(addresses("requests", 1), Limit::per_minute(10))
        .block(
            addresses("abuse", 2).docs("https://example.com/abuse"),
            REASON,
        );
    Limiter::new(limits.build().unwrap(), MemoryBackend::new()).with_clock(clock.clone())
}

fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("abuse", ClientIp::peer()))
        .rule(Rule::new("requests", ClientIp::peer()))
}

#[tokio::test]
async fn blocked_client_is_told_the_reason_and_charged_nothing() {
    let clock = ManualClock::default();
    let limiter = limiter(&clock);
    let (layer, other) = (layer(&limiter), "203.0.113.8");
    assert_eq!(send(&layer, IP).await.status(), StatusCode::OK);
    let hour = Duration::from_secs(3600);
    limiter.block("abuse", IP, hour).await.unwrap();
    for _ in 0..20 {
        let response = send(&layer, IP).await;
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()["retry-after"], "3600");
        assert_eq!(
            response.headers()["link"],
            "<https://example.com/abuse>;rel=\"help\""
        );
        assert!(!response.headers().contains_key("ratelimit"));
        let document: Value = serde_json::from_str(&text(response).await).unwrap();
        assert_eq!(document["title"], "Abnormal Usage Detected");
        let detail = document["detail"].as_str().unwrap();
        assert!(
            detail.starts_with(&format!("{REASON}, retry in ")),
            "{detail}"
        );
        assert_eq!(document["violated-policies"][0], "abuse");
    }
    assert_eq!(send(&layer, other).await.status(), StatusCode::OK);
    limiter.unblock("abuse", IP).await.unwrap();
    let response = send(&layer, IP).await;
    assert_eq!(response.headers()["ratelimit"], "\"requests\";r=8;t=6");
    limiter.block("abuse", IP, hour).await.unwrap();
    clock.advance(hour);
    assert_eq!(send(&layer, IP).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn fields_say_nothing_of_lists_of_blocked_clients() {
    let limiter = limiter(&ManualClock::default());
    let response = send(&layer(&limiter), IP).await;
    assert_eq!(
        response.headers()["ratelimit-policy"],
        "\"requests\";q=10;w=60"
    );
    assert_eq!(response.headers()["ratelimit"], "\"requests\";r=9;t=6");
    let layer = layer(&limiter).headers(Headers::XRateLimitDelta);
    let response = send(&layer, IP).await;
    assert_eq!(response.headers()["x-ratelimit-limit"], "10");
    assert_eq!(response.headers()["x-ratelimit-remaining"], "8");
}

#[tokio::test]
async fn grpc_clients_get_the_reason_as_the_message() {
    let limiter = limiter(&ManualClock::default());
    limiter
        .block("abuse", IP, Duration::from_secs(60))
        .await
        .unwrap();
    let request = as_grpc(from_ip(IP), "application/grpc");
    let response = layer(&limiter).layer(Hello).oneshot(request).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "8");
    let message = response.headers()["grpc-message"].to_str().unwrap();
    assert!(message.starts_with(REASON), "{message}");
    assert_eq!(response.headers()["grpc-retry-pushback-ms"], "60000");
}

#[tokio::test]
async fn operators_see_the_reason_too() {
    let (log, _guard) = Log::capture_at(tracing::Level::DEBUG);
    let limiter = limiter(&ManualClock::default());
    limiter
        .block("abuse", IP, Duration::from_secs(60))
        .await
        .unwrap();
    send(&layer(&limiter).refusal_ids(true), IP).await;
    let event = format!("reason=\"blocked\" detail=\"{REASON}\" limit=\"abuse\" id=\"{IP}\" ");
    assert_eq!(log.count(&event), 1, "{log:?}");
    assert_eq!(log.count("source=Store retry_after=60s"), 1, "{log:?}");
}

#[test]
fn rules_of_such_a_list_only_look() {
    let layer = || RateLimitLayer::with_limiter(limiter(&ManualClock::default()));
    let rule = || Rule::new("abuse", ClientIp::peer());
    for wrong in [
        rule().cost(2),
        rule().cost_by(|_| 1),
        rule().mode(Mode::Debit),
        rule().refund_if(|_| true),
        rule().limit_by(["requests"], |_| None),
        Rule::new("requests", ClientIp::peer()).limit_by(["abuse"], |_| None),
    ] {
        let error = layer().try_rule(wrong).unwrap_err();
        assert!(matches!(error, RuleError::Block { .. }), "{error}");
        assert!(error.to_string().contains("`abuse`"), "{error}");
    }
    // The format of the ids has to fit, as for any limit.
    let by_account = Rule::new("abuse", HeaderId::new("x-account"));
    assert!(layer().try_rule(by_account).is_ok());
    assert!(
        layer()
            .try_rule(rule())
            .and_then(|layer| layer.try_rule(rule()))
            .is_ok()
    );
}
