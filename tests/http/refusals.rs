//! Refusals: their documents, formats, references, and events.

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::Full;
use serde_json::{Value, json};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::ManualClock,
    id::IdFormat,
    key::{Everyone, HeaderId, Ipv6Range},
    limit::LimitName,
    response::{PlainText, Problem, Reason, Refusal, Registry},
    rule::OnMissing,
};
use tower::{Layer, ServiceExt};

use crate::support::{
    Hello, Log, from_ip, layer, limiter, limiter_of, send,
    store::{Fate, Store},
    text,
};

const IP: &str = "203.0.113.7";

type Answer = Response<tollgate::layer::ResponseBody<Full<Bytes>>>;

fn one_per_hour() -> RateLimitLayer {
    layer(&limiter_of(&ManualClock::default(), Limit::per_hour(1)))
}

/// The response to the second request.
async fn refused(layer: &RateLimitLayer) -> Answer {
    send(layer, IP).await;
    send(layer, IP).await
}

async fn document(response: Answer) -> Value {
    serde_json::from_str(&text(response).await).unwrap()
}

/// Removes the reference from a document, and returns it.
fn take_id(document: &mut Value) -> String {
    let document = document.as_object_mut().unwrap();
    let id = document.remove("refusal-id").unwrap();
    let id = id.as_str().unwrap();
    assert!(is_reference(id), "{id}");
    id.to_owned()
}

pub(crate) fn is_reference(text: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase() && !"ilou".contains(c);
    text.len() == 12 && text.chars().all(is_digit)
}

#[tokio::test]
async fn refusal_is_a_problem_document() {
    let layer = layer(&limiter(&ManualClock::default()));
    for _ in 0..20 {
        assert_eq!(send(&layer, "172.16.123.1").await.status(), StatusCode::OK);
    }
    let response = send(&layer, "172.16.123.1").await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    for (name, value) in [
        ("retry-after", "1"),
        ("cache-control", "no-store"),
        ("content-type", "application/problem+json"),
        ("ratelimit", "\"requests\";r=0;t=1"),
        ("ratelimit-policy", "\"requests\";q=20;w=2"),
    ] {
        assert_eq!(response.headers()[name], value);
    }
    let mut document = document(response).await;
    take_id(&mut document);
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota Exceeded",
        "status": 429,
        "detail": "too many requests (10 per second, 20 at once) from 172.16.123.1: retry in 1 s",
        "violated-policies": ["requests"],
    });
    assert_eq!(document, expected);
}

#[tokio::test]
async fn refusal_names_all_limits_that_deny_and_no_others() {
    let limits = Limits::builder()
        .limit("per-ip", Limit::per_minute(2))
        .limit("loose", Limit::per_minute(9))
        .limit("all", Limit::per_hour(2))
        .limit(LimitName::from("shadow").shadow(true), Limit::per_hour(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter.with_clock(ManualClock::default()))
        .rule(Rule::new("per-ip", ClientIp::peer()))
        .rule(Rule::new("loose", ClientIp::peer()))
        .rule(Rule::new("shadow", ClientIp::peer()))
        .rule(Rule::new("all", Everyone));
    send(&layer, IP).await;
    let response = refused(&layer).await;
    assert_eq!(
        response.headers()["ratelimit"],
        "\"per-ip\";r=0;t=30, \"all\";r=0;t=1800"
    );
    assert_eq!(response.headers()["retry-after"], "1800");
    let document = document(response).await;
    let detail = "limit `all` exceeded (2 per hour, 2 at once) from everyone: retry in 30 minutes";
    assert_eq!(document["detail"], detail);
    assert_eq!(document["violated-policies"], json!(["all", "per-ip"]));
}

#[tokio::test]
async fn acme_client_gets_the_problem_that_boulder_sends() {
    let name = LimitName::from("NewOrdersPerAccount")
        .description("new orders")
        .docs("https://example.com/limits");
    let limit = Limit::new(300, 300, Duration::from_secs(3 * 60 * 60)).unwrap();
    let limits = Limits::builder().limit(name, limit).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new());
    let account = |_: &http::request::Parts| Some("12345678");
    let layer = RateLimitLayer::with_limiter(limiter.with_clock(ManualClock::default()))
        .rule(Rule::new("NewOrdersPerAccount", account).cost(300))
        .respond_with(Problem::acme());
    let response = refused(&layer).await;
    let link = "<https://example.com/limits>;rel=\"help\"";
    assert_eq!(response.headers()["link"], link);
    let document = document(response).await;
    assert_eq!(document["type"], "urn:ietf:params:acme:error:rateLimited");
    let detail = "too many new orders (300 per 3 hours, 300 at once; the cost is 300) from 12345678: retry in 3 hours, \
                  see https://example.com/limits";
    assert_eq!(document["detail"], detail);
    // The same in plain words.
    let response = send(&layer.respond_with(PlainText), IP).await;
    assert_eq!(response.headers()["link"], link);
    let text = text(response).await;
    let (message, id) = text.trim_end().rsplit_once(", refusal-id ").unwrap();
    assert_eq!(message, detail);
    assert!(is_reference(id), "{id}");
}

#[tokio::test]
async fn format_is_the_same_whatever_a_client_accepts() {
    let closure = |refusal: &Refusal<'_>| {
        let mut response = Response::new(Bytes::from("no"));
        *response.status_mut() = refusal.status;
        response
    };
    for (layer, content_type) in [
        (one_per_hour(), Some("application/problem+json")),
        (
            one_per_hour().respond_with(Registry),
            Some("application/json"),
        ),
        (
            one_per_hour().respond_with(PlainText),
            Some("text/plain; charset=utf-8"),
        ),
        (one_per_hour().respond_with(closure), None),
    ] {
        send(&layer, IP).await;
        for accept in ["*/*", "text/html, text/plain;q=0.9", "image/png"] {
            let mut request = from_ip(IP);
            let headers = request.headers_mut();
            headers.insert("accept", accept.parse().unwrap());
            let response = layer.layer(Hello).oneshot(request).await.unwrap();
            assert_eq!(response.status(), 429, "{accept}");
            let found = response.headers().get("content-type");
            let found = found.map(|value| value.to_str().unwrap());
            assert_eq!(found, content_type, "{accept}");
        }
    }
}

#[tokio::test]
async fn closure_gets_the_refusal_and_its_fields_are_kept() {
    let layer = one_per_hour().respond_with(|refusal: &Refusal<'_>| {
        assert!(matches!(refusal.reason, Reason::OverLimit));
        let [denial] = refusal.denials() else {
            panic!("one limit denies")
        };
        let (path, client) = (refusal.request.uri.path(), denial.client().unwrap());
        let text = format!("{} {client} {path} {}", denial.limit, refusal.id);
        Response::builder()
            .status(StatusCode::SERVICE_UNAVAILABLE)
            .header(header::CACHE_CONTROL, "private")
            .body(Bytes::from(text))
            .unwrap()
    });
    let denied = refused(&layer).await;
    assert_eq!(denied.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(denied.headers()["cache-control"], "private");
    assert_eq!(denied.headers()["retry-after"], "3600");
    assert_eq!(denied.headers()["ratelimit"], "\"requests\";r=0;t=3600");
    let text = text(denied).await;
    let id = text.strip_prefix("requests 203.0.113.7 / ").unwrap();
    assert!(is_reference(id), "{id}");
}

#[tokio::test]
async fn message_names_the_reason_and_the_limit_that_is_it() {
    let away = Limiter::new(
        Limits::builder()
            .limit("requests", Limit::per_hour(1))
            .build()
            .unwrap(),
        Store::new(Fate::NoReply),
    );
    let limits = Limits::builder()
        .limit("a", Limit::per_minute(9))
        .limit("b", Limit::per_minute(5));
    let costly = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let costly = RateLimitLayer::with_limiter(costly)
        .rule(Rule::new("a", Everyone).cost_by(|_| 6))
        .rule(Rule::new("b", Everyone).cost_by(|_| 6));
    for (layer, status, violated, detail) in [
        (
            costly,
            413,
            json!(["b"]),
            "the request costs 6, and limit `b` admits at most 5 at once",
        ),
        (
            layer(&away),
            503,
            Value::Null,
            "the rate limit cannot be checked right now",
        ),
    ] {
        let response = send(&layer, IP).await;
        assert_eq!(response.status(), status);
        let document = document(response).await;
        assert_eq!(document["detail"], detail);
        assert_eq!(document["violated-policies"], violated);
    }
    let registry = document(refused(&one_per_hour().respond_with(Registry)).await).await;
    assert_eq!(registry["errors"][0]["message"], "too many requests");
}

#[tokio::test]
async fn length_of_a_body_is_known_before_it_is_sent() {
    let plain = Rule::new("requests", ClientIp::peer());
    for rule in [plain.clone(), plain.settle_by(|_| None)] {
        let limiter = limiter_of(&ManualClock::default(), Limit::per_hour(1));
        let layer = RateLimitLayer::with_limiter(limiter).rule(rule);
        for status in [200, 429] {
            let response = send(&layer, IP).await;
            assert_eq!(response.status(), status);
            let length = response.body().size_hint().exact();
            assert_eq!(length, Some(text(response).await.len() as u64), "{status}");
        }
    }
}

#[tokio::test]
async fn every_refusal_has_a_reference_of_its_own() {
    let mut seen = HashSet::new();
    let layer = one_per_hour();
    send(&layer, IP).await;
    for _ in 0..100 {
        assert!(seen.insert(take_id(&mut document(send(&layer, IP).await).await)));
    }
    let registry = document(send(&layer.clone().respond_with(Registry), IP).await).await;
    assert!(seen.insert(take_id(&mut registry["errors"][0]["detail"].clone())));
    let listed = layer.clone().deny_if("all", |_| true);
    assert!(seen.insert(take_id(&mut document(send(&listed, IP).await).await)));
    let no_id = RateLimitLayer::new(Limit::per_hour(1), HeaderId::new("x-key"));
    assert!(seen.insert(take_id(&mut document(send(&no_id, IP).await).await)));
}

/// The events of refusals, as long as the guard exists.
pub(crate) fn listen() -> (Log, tracing::subscriber::DefaultGuard) {
    Log::capture_at(tracing::Level::DEBUG)
}

/// Returns the events of refusals from the reference on.
pub(crate) fn events(log: &Log) -> Vec<String> {
    let log = format!("{log:?}");
    let refused = |line: &str| Some(line.split_once(": refused ")?.1.to_owned());
    log.lines().filter_map(refused).collect()
}

#[tokio::test]
async fn each_limit_that_refuses_has_an_event_the_strictest_first() {
    let (log, _guard) = listen();
    let limits = Limits::builder()
        .limit(
            LimitName::new("requests", 1, IdFormat::IpAddress),
            Limit::per_minute(1),
        )
        .limit(
            LimitName::new("ranges", 2, IdFormat::Ipv6Range),
            Limit::per_hour(9),
        )
        .override_for("ranges", "2001:db8::/48", Limit::per_hour(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter.with_clock(ManualClock::default()))
        .rule(Rule::new("requests", ClientIp::peer().exact()))
        .rule(Rule::new("ranges", Ipv6Range::peer()).on_missing(OnMissing::Skip));
    let client = "2001:db8::1";
    send(&layer, client).await;
    assert!(events(&log).is_empty(), "{log:?}");
    let id = take_id(&mut document(send(&layer, client).await).await);
    let event = |limit: &str, per: &str, overridden: bool, client: &str, wait: u32| {
        format!(
            "refusal_id={id} reason=\"over_limit\" limit=\"{limit}\" values=1 per {per}, 1 at once \
             overridden={overridden} id=\"{client}\" cost=1 remaining=0 next_after={wait}s reset_after={wait}s source=Store \
             retry_after=3600s"
        )
    };
    let expected = [
        event("ranges", "hour", true, "2001:db8::/48", 3600),
        event("requests", "minute", false, client, 60),
    ];
    assert_eq!(events(&log), expected);
}

#[tokio::test]
async fn event_of_a_refusal_without_a_limit_has_the_reason() {
    let (log, _guard) = listen();
    let layer = layer(&limiter_of(&ManualClock::default(), Limit::per_hour(2)))
        .rule(Rule::new("requests", HeaderId::new("x-key")))
        .deny_if(
            "abusers",
            ClientIp::peer().within(["192.0.2.0/24"]).unwrap(),
        );
    send(&layer, "192.0.2.1").await;
    send(&layer, IP).await;
    let events = events(&log);
    let [listed, no_id] = &*events else {
        panic!("{events:?}");
    };
    assert!(
        listed.ends_with(" reason=\"listed\" detail=\"abusers\""),
        "{listed}"
    );
    assert!(no_id.contains(" reason=\"no_id\" detail="), "{no_id}");
    assert!(
        no_id.contains("x-key") && !no_id.contains("limit="),
        "{no_id}"
    );
}

#[tokio::test]
async fn blocked_client_gets_the_reason_and_is_not_charged() {
    const REASON: &str = "this address is paused after reports of abuse";
    let (log, _guard) = listen();
    let clock = ManualClock::default();
    let abuse = LimitName::new("abuse", 2, IdFormat::IpAddress);
    let limits = Limits::builder()
        .limit("requests", Limit::per_minute(10))
        .block(abuse.docs("https://example.com/abuse"), REASON);
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(clock.clone());
    let layer = layer(&limiter).rule(Rule::new("abuse", ClientIp::peer()));
    assert_eq!(send(&layer, IP).await.status(), StatusCode::OK);
    let hour = Duration::from_secs(3600);
    limiter.block("abuse", IP, hour).await.unwrap();
    for _ in 0..20 {
        let response = send(&layer, IP).await;
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()["retry-after"], "3600");
        let link = "<https://example.com/abuse>;rel=\"help\"";
        assert_eq!(response.headers()["link"], link);
        assert!(!response.headers().contains_key("ratelimit"));
        let document = document(response).await;
        assert_eq!(document["title"], "Abnormal Usage Detected");
        let detail = document["detail"].as_str().unwrap();
        assert!(
            detail.starts_with(&format!("{REASON}: retry in ")),
            "{detail}"
        );
        assert_eq!(document["violated-policies"], json!(["abuse"]));
    }
    let event = format!("reason=\"blocked\" detail=\"{REASON}\" limit=\"abuse\"");
    assert_eq!(log.count(&event), 20, "{log:?}");
    assert_eq!(send(&layer, "203.0.113.8").await.status(), StatusCode::OK);
    limiter.unblock("abuse", IP).await.unwrap();
    let response = send(&layer, IP).await;
    assert_eq!(response.headers()["ratelimit"], "\"requests\";r=8;t=6");
    limiter.block("abuse", IP, hour).await.unwrap();
    clock.advance(hour);
    assert_eq!(send(&layer, IP).await.status(), StatusCode::OK);
}
