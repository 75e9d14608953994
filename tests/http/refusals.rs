//! References of refusals, and the log that keeps the last ones.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::Value;
use tollgate::{
    ClientIp, Decision, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::ManualClock,
    decision::Source,
    id::IdFormat,
    key::{Everyone, Extracted, HeaderId, Ipv6Range, MissingId},
    limit::LimitName,
    response::{Problem, Refusal, RefusalId, RefusalLog, RefusedCharge, Registry},
    rule::OnMissing,
};
use tower::{Layer, ServiceExt};

use crate::support::{
    Hello, Log, from_ip, layer, limiter_of, send,
    store::{Fate, Store},
    text,
};

fn one_per_hour() -> RateLimitLayer {
    layer(&limiter_of(&ManualClock::default(), Limit::per_hour(1)))
}

async fn refused(layer: &RateLimitLayer) -> Response<tollgate::layer::ResponseBody<Full<Bytes>>> {
    send(layer, "203.0.113.7").await;
    send(layer, "203.0.113.7").await
}

async fn document(layer: &RateLimitLayer) -> Value {
    serde_json::from_str(&text(refused(layer).await).await).unwrap()
}

fn id_in(document: &Value) -> RefusalId {
    let text = document["refusal-id"].as_str().unwrap();
    let id = RefusalId::parse(text).unwrap();
    assert_eq!(id.to_string(), text);
    id
}

#[tokio::test]
async fn refusal_has_a_reference_only_if_that_is_turned_on() {
    for layer in [
        one_per_hour(),
        one_per_hour().refusal_ids(true).refusal_ids(false),
    ] {
        let document = document(&layer).await;
        assert_eq!(document.get("refusal-id"), None, "{document}");
    }
    let layer = one_per_hour().refusal_ids(true);
    let mut seen = HashSet::new();
    for _ in 0..100 {
        let document = document(&layer).await;
        assert!(seen.insert(id_in(&document)), "{document}");
        assert_eq!(document["violated-policies"][0], "requests");
        assert!(document["detail"].as_str().unwrap().contains("retry in "));
    }
}

#[tokio::test]
async fn each_format_has_a_place_for_the_reference() {
    let json = |body: &str| serde_json::from_str::<Value>(body).unwrap();
    let layer = one_per_hour()
        .refusal_ids(true)
        .respond_with(Problem::acme());
    id_in(&json(&text(refused(&layer).await).await));

    let layer = one_per_hour().refusal_ids(true).respond_with(Registry);
    let body = json(&text(refused(&layer).await).await);
    id_in(&body["errors"][0]["detail"]);

    let layer = one_per_hour().refusal_ids(true);
    send(&layer, "203.0.113.7").await;
    let mut request = from_ip("203.0.113.7");
    request
        .headers_mut()
        .insert(header::ACCEPT, "text/plain".parse().unwrap());
    let body = text(layer.layer(Hello).oneshot(request).await.unwrap()).await;
    let (_, id) = body.trim_end().rsplit_once(", refusal-id ").unwrap();
    assert!(RefusalId::parse(id).is_some(), "{body}");

    let layer = one_per_hour()
        .refusal_ids(true)
        .respond_with(|refusal: &Refusal<'_>| {
            Response::new(Bytes::from(refusal.id().unwrap().to_string()))
        });
    let body = text(refused(&layer).await).await;
    assert!(RefusalId::parse(&body).is_some(), "{body}");
}

#[cfg(feature = "tonic")]
#[tokio::test]
async fn grpc_details_contain_the_reference() {
    use tonic::Status;
    use tonic_types::StatusExt;

    use crate::support::as_grpc;

    let layer = one_per_hour().refusal_ids(true);
    send(&layer, "203.0.113.7").await;
    let request = as_grpc(from_ip("203.0.113.7"), "application/grpc");
    let response = layer.layer(Hello).oneshot(request).await.unwrap();
    let status = Status::from_header_map(response.headers()).unwrap();
    let details = status.get_error_details();
    let id = &details.request_info().unwrap().request_id;
    assert!(RefusalId::parse(id).is_some(), "{id}");
    assert!(details.quota_failure().is_some() && details.retry_info().is_some());
}

#[tokio::test]
async fn event_of_the_refusal_has_the_reference_and_the_values_of_the_limit() {
    let (log, _guard) = Log::capture_at(tracing::Level::DEBUG);
    let id = id_in(&document(&one_per_hour().refusal_ids(true)).await);
    let own = format!("refused refusal_id=\"{id}\" reason=\"over_limit\" limit=\"requests\"");
    assert_eq!(log.count(&own), 1, "{log:?}");
    let values = "values=1 per 1h0m0s, 1 at once overridden=false id=\"203.0.113.7\"";
    assert_eq!(log.count(values), 1, "{log:?}");
    // Without references, there is no such event.
    document(&one_per_hour()).await;
    assert_eq!(log.count("refused refusal_id"), 1, "{log:?}");
}

/// A limit for addresses, and one for their ranges. One range has an override.
fn addresses_and_ranges() -> Limiter {
    let addresses = LimitName::new("requests", 1, IdFormat::IpAddress);
    let ranges = LimitName::new("ranges", 2, IdFormat::Ipv6Range);
    let limits = Limits::builder()
        .limit(addresses, Limit::per_hour(1))
        .limit(ranges, Limit::per_hour(9))
        .override_for("ranges", "2001:db8::/48", Limit::per_hour(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    limiter.with_clock(ManualClock::default())
}

fn assert_charge(charge: &RefusedCharge, limit: &str, client: &str, is_override: bool) {
    assert_eq!(&*charge.limit, limit);
    assert_eq!(charge.client.as_deref(), Some(client));
    assert_eq!(charge.values.as_deref(), Some("1 per 1h0m0s, 1 at once"));
    assert_eq!((charge.is_override, charge.is_hashed), (is_override, false));
    assert_eq!((charge.cost, charge.remaining), (1, Some(0)));
    let hour = Some(Duration::from_secs(3600));
    assert_eq!((charge.retry_after, charge.reset_after), (hour, hour));
    assert_eq!(charge.source, Source::Store);
}

#[tokio::test]
async fn log_keeps_what_operators_need_for_an_answer() {
    let (log, limiter) = (RefusalLog::new(), addresses_and_ranges());
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("requests", ClientIp::peer().exact()))
        .rule(Rule::new("ranges", Ipv6Range::peer()).on_missing(OnMissing::Skip))
        .keep_refusals(&log);
    let before = SystemTime::now();
    send(&layer, "2001:db8::1").await;
    assert!(log.latest().is_empty());
    let response = send(&layer, "2001:db8::1").await;
    let id = id_in(&serde_json::from_str(&text(response).await).unwrap());
    let kept = log.get(id).unwrap();
    assert_eq!(
        (kept.id, kept.reason, &kept.path),
        (id, "over_limit", &None)
    );
    assert!((before..=SystemTime::now()).contains(&kept.at));
    assert_eq!(kept.retry_after, Some(Duration::from_secs(3600)));
    assert_eq!(kept.charges.len(), 2);
    assert_charge(&kept.charges[0], "requests", "2001:db8::1", false);
    assert_charge(&kept.charges[1], "ranges", "2001:db8::/48", true);
    // Each spelling of the client finds it.
    let limits = limiter.limits();
    for client in [
        "2001:db8::1",
        "2001:0DB8::0:1",
        "2001:db8::/48",
        "2001:db8::77",
    ] {
        assert_eq!(log.of_client(&limits, client).len(), 1, "{client}");
    }
    for client in ["2001:db9::1", "alice", ""] {
        assert!(log.of_client(&limits, client).is_empty(), "{client}");
    }
}

#[tokio::test]
async fn log_tells_why_a_request_without_a_limit_was_refused() {
    let log = RefusalLog::new();
    let layer = layer(&limiter_of(&ManualClock::default(), Limit::per_hour(2)))
        .rule(Rule::new("requests", HeaderId::new("x-key")).on_missing(OnMissing::Refuse))
        .deny_if(
            "abusers",
            ClientIp::peer().within(["192.0.2.0/24"]).unwrap(),
        )
        .keep_refusals(&log);
    send(&layer, "192.0.2.1").await;
    send(&layer, "203.0.113.7").await;
    let kept = log.latest();
    let [no_id, listed] = &*kept else {
        panic!("{kept:?}");
    };
    assert_eq!(
        (listed.reason, listed.detail.as_deref()),
        ("listed", Some("abusers"))
    );
    assert_eq!(no_id.reason, "no_id");
    assert!(
        no_id.detail.as_deref().unwrap().contains("x-key"),
        "{no_id:?}"
    );
    assert!(no_id.charges.is_empty() && listed.charges.is_empty());
}

#[tokio::test]
async fn log_tells_which_clients_a_store_that_is_away_could_not_decide() {
    let log = RefusalLog::new();
    let limits = Limits::builder()
        .limit("requests", Limit::per_hour(1))
        .build();
    let limiter = Limiter::new(limits.unwrap(), Store::new(Fate::Away));
    let layer = layer(&limiter).keep_refusals(&log);
    assert_eq!(
        send(&layer, "203.0.113.7").await.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    let kept = log.of_client(&limiter.limits(), "203.0.113.7");
    assert_eq!(kept[0].reason, "unavailable");
    let charge = &kept[0].charges[0];
    assert_eq!((&*charge.limit, charge.cost), ("requests", 1));
    assert_eq!(charge.values.as_deref(), Some("1 per 1h0m0s, 1 at once"));
    assert_eq!(
        (charge.remaining, charge.retry_after, charge.reset_after),
        (None, None, None)
    );
}

#[tokio::test]
async fn secret_ids_are_kept_as_hashes_and_found_by_themselves() {
    for (redacts, rule) in [
        (false, Rule::new("requests", HeaderId::new("x-key"))),
        (true, Rule::new("requests", HeaderId::new("x-key").shown())),
    ] {
        let log = RefusalLog::new();
        let limits = Limits::builder().limit("requests", Limit::per_hour(1));
        let limits = limits.redact_ids(redacts).build().unwrap();
        let limiter = Limiter::new(limits, MemoryBackend::new());
        let layer = RateLimitLayer::with_limiter(limiter.clone())
            .rule(rule)
            .keep_refusals(&log);
        for _ in 0..2 {
            let request = Request::builder()
                .header("x-key", "sk-12345")
                .body(Full::<Bytes>::default());
            layer.layer(Hello).oneshot(request.unwrap()).await.unwrap();
        }
        let kept = log.of_client(&limiter.limits(), "sk-12345");
        assert!(kept[0].charges[0].is_hashed);
        let shown = format!("{kept:?} {log:?}");
        assert!(
            shown.contains("redacted-") && !shown.contains("12345"),
            "{shown}"
        );
        assert!(log.of_client(&limiter.limits(), "sk-12346").is_empty());
    }
}

#[tokio::test]
async fn memory_of_the_log_is_bounded() {
    let log = RefusalLog::with_capacity(3);
    let limits = Limits::builder()
        .limit("requests", Limit::per_hour(1))
        .build();
    let limiter = Limiter::new(limits.unwrap(), MemoryBackend::new());
    let by_header = |parts: &http::request::Parts| {
        let id = parts.headers.get("x-key")?;
        Some(tollgate::id::Id::from(id.to_str().ok()?))
    };
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("requests", by_header))
        .keep_refusals(&log);
    let ids: Vec<_> = (0..5).map(|n| format!("{n}{}", "x".repeat(3000))).collect();
    for id in &ids {
        for _ in 0..2 {
            let request = Request::builder()
                .header("x-key", id)
                .body(Full::<Bytes>::default());
            layer.layer(Hello).oneshot(request.unwrap()).await.unwrap();
        }
    }
    let latest = log.latest();
    assert_eq!(latest.len(), 3);
    for (kept, id) in latest.iter().zip(ids.iter().rev()) {
        assert!(kept.charges[0].client.as_deref().unwrap().len() < 128);
        assert_eq!(log.of_client(&limiter.limits(), id)[0].id, kept.id);
    }
    let none = RefusalLog::with_capacity(0);
    document(&one_per_hour().keep_refusals(&none)).await;
    assert!(none.latest().is_empty());
    // What a configuration says is bounded too.
    let log = RefusalLog::new();
    let missing =
        |_: &http::request::Parts| Extracted::Missing(MissingId::client("\u{1f980}".repeat(2000)));
    let layer = RateLimitLayer::new(Limit::per_hour(1), missing).keep_refusals(&log);
    send(&layer, "203.0.113.7").await;
    assert!(log.latest()[0].detail.as_deref().unwrap().len() <= 256);
}

#[test]
fn many_threads_share_a_log() {
    const EACH: usize = 200;
    let log = RefusalLog::with_capacity(10_000);
    let layer = RateLimitLayer::new(Limit::per_hour(1), Everyone).keep_refusals(&log);
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                runtime().block_on(async {
                    for _ in 0..EACH {
                        send(&layer, "203.0.113.7").await;
                    }
                });
            });
        }
    });
    let ids: HashSet<_> = log.latest().iter().map(|kept| kept.id).collect();
    assert_eq!(ids.len(), 4 * EACH - 1);
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn log_keeps_the_route_but_not_the_path() {
    use axum::{Router, body::Body, routing::get};

    let log = RefusalLog::new();
    let layer = RateLimitLayer::new(Limit::per_hour(1), Everyone).keep_refusals(&log);
    let hello = get(|| async { "hello" });
    let app = Router::new().route("/users/{id}", hello).layer(layer);
    for _ in 0..2 {
        let request = Request::get("/users/secret").body(Body::empty());
        app.clone().oneshot(request.unwrap()).await.unwrap();
    }
    let kept = log.latest();
    assert_eq!(kept[0].path.as_deref(), Some("/users/{id}"));
    assert!(!format!("{kept:?}").contains("secret"));
}

#[tokio::test]
async fn decisions_of_a_handler_have_references_too() {
    let log = RefusalLog::new();
    let layer = one_per_hour().keep_refusals(&log);
    let (responder, requests) = (
        layer.responder(),
        layer.limiter().limit("requests").unwrap(),
    );
    let (parts, ()) = Request::new(()).into_parts();
    requests.spend("alice").await.unwrap();
    let decision = requests.spend("alice").await.unwrap();
    let response = responder
        .refusal(&parts, &requests, "alice", &decision)
        .unwrap();
    let id = id_in(&serde_json::from_slice(response.body()).unwrap());
    let kept = log.get(id).unwrap();
    assert_eq!(kept.charges[0].client.as_deref(), Some("alice"));
    assert_ne!(kept.charges[0].retry_after, Some(Decision::NEVER));
}
