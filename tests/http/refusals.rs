//! References of refusals, and their events.

use std::collections::HashSet;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::Value;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::ManualClock,
    id::{Id, IdFormat},
    key::{Everyone, HeaderId, Ipv6Range},
    limit::LimitName,
    response::{Problem, Refusal, RefusalId, Registry},
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
    let id: RefusalId = text.parse().unwrap();
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
    assert!(id.parse::<RefusalId>().is_ok(), "{body}");

    let layer = one_per_hour()
        .refusal_ids(true)
        .respond_with(|refusal: &Refusal<'_>| {
            Response::new(Bytes::from(refusal.id().unwrap().to_string()))
        });
    let body = text(refused(&layer).await).await;
    assert!(body.parse::<RefusalId>().is_ok(), "{body}");
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
    assert!(id.parse::<RefusalId>().is_ok(), "{id}");
    assert!(details.quota_failure().is_some() && details.retry_info().is_some());
}

/// The events of refusals, and a guard that keeps them coming.
fn listen() -> (Log, tracing::subscriber::DefaultGuard) {
    Log::capture_at(tracing::Level::DEBUG)
}

/// Returns the events of refusals from the reference on.
fn events(log: &Log) -> Vec<String> {
    let log = format!("{log:?}");
    let refused = |line: &str| Some(line.split_once(": refused ")?.1.to_owned());
    log.lines().filter_map(refused).collect()
}

#[tokio::test]
async fn event_of_a_refusal_has_its_reference_the_limit_and_the_bucket() {
    let (log, _guard) = listen();
    let id = id_in(&document(&one_per_hour().refusal_ids(true)).await);
    let expected = format!(
        "refusal_id=\"{id}\" reason=\"over_limit\" limit=\"requests\" values=1 per 1h0m0s, 1 at once overridden=false \
         id=\"203.0.113.7\" cost=1 remaining=0 next_after=3600s reset_after=3600s source=Store retry_after=3600s"
    );
    assert_eq!(events(&log), [expected]);
    // Without references, there is no such event.
    document(&one_per_hour()).await;
    assert_eq!(events(&log).len(), 1, "{log:?}");
}

/// A limit for addresses, and one for their ranges. One range has an override.
fn addresses_and_ranges() -> Limiter {
    let addresses = LimitName::new("requests", 1, IdFormat::IpAddress);
    let ranges = LimitName::new("ranges", 2, IdFormat::Ipv6Range);
    let limits = Limits::builder()
        .limit(addresses, Limit::per_minute(1))
        .limit(ranges, Limit::per_hour(9))
        .override_for("ranges", "2001:db8::/48", Limit::per_hour(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    limiter.with_clock(ManualClock::default())
}

#[tokio::test]
async fn each_limit_that_refuses_has_an_event_the_strictest_first() {
    let (log, _guard) = listen();
    let layer = RateLimitLayer::with_limiter(addresses_and_ranges())
        .rule(Rule::new("requests", ClientIp::peer().exact()))
        .rule(Rule::new("ranges", Ipv6Range::peer()).on_missing(OnMissing::Skip))
        .refusal_ids(true);
    let client = "2001:db8::1";
    send(&layer, client).await;
    assert!(events(&log).is_empty(), "{log:?}");
    let response = send(&layer, client).await;
    let id = id_in(&serde_json::from_str(&text(response).await).unwrap());
    let event = |limit: &str, per: &str, overridden: bool, client: &str, wait: u32| {
        format!(
            "refusal_id=\"{id}\" reason=\"over_limit\" limit=\"{limit}\" values=1 per {per}, 1 at once \
             overridden={overridden} id=\"{client}\" cost=1 remaining=0 next_after={wait}s reset_after={wait}s source=Store \
             retry_after=3600s"
        )
    };
    let expected = [
        event("ranges", "1h0m0s", true, "2001:db8::/48", 3600),
        event("requests", "1m0s", false, client, 60),
    ];
    assert_eq!(events(&log), expected);
}

#[tokio::test]
async fn event_says_why_a_request_without_a_limit_was_refused() {
    let (log, _guard) = listen();
    let layer = layer(&limiter_of(&ManualClock::default(), Limit::per_hour(2)))
        .rule(Rule::new("requests", HeaderId::new("x-key")).on_missing(OnMissing::Refuse))
        .deny_if(
            "abusers",
            ClientIp::peer().within(["192.0.2.0/24"]).unwrap(),
        )
        .refusal_ids(true);
    send(&layer, "192.0.2.1").await;
    send(&layer, "203.0.113.7").await;
    let events = events(&log);
    let [listed, no_id] = &*events else {
        panic!("{events:?}");
    };
    let (_, listed) = listed.split_once(' ').unwrap();
    assert_eq!(listed, "reason=\"listed\" detail=\"abusers\"");
    let (_, no_id) = no_id.split_once(' ').unwrap();
    assert!(no_id.starts_with("reason=\"no_id\" detail="), "{no_id}");
    assert!(
        no_id.contains("x-key") && !no_id.contains("limit="),
        "{no_id}"
    );
}

#[tokio::test]
async fn events_name_the_clients_that_a_store_that_is_away_could_not_decide() {
    let (log, _guard) = listen();
    let limits = Limits::builder()
        .limit("requests", Limit::per_hour(1))
        .limit("all", Limit::per_hour(7));
    let limiter = Limiter::new(limits.build().unwrap(), Store::new(Fate::Away));
    let layer = layer(&limiter)
        .rule(Rule::new("all", Everyone))
        .refusal_ids(true);
    let response = send(&layer, "203.0.113.7").await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let id = id_in(&serde_json::from_str(&text(response).await).unwrap());
    let event = |limit: &str, values: u32, client: &str| {
        format!(
            "refusal_id=\"{id}\" reason=\"unavailable\" limit=\"{limit}\" values={values} per 1h0m0s, {values} at once \
             overridden=false id=\"{client}\" cost=1 retry_after=1s"
        )
    };
    let expected = [
        event("requests", 1, "203.0.113.7"),
        event("all", 7, "everyone"),
    ];
    assert_eq!(events(&log), expected);
}

#[tokio::test]
async fn events_have_hashes_of_ids_that_are_secret_or_long() {
    let long = "x".repeat(1000);
    for (redacts, rule, key) in [
        (false, HeaderId::new("x-key"), "sk-12345"),
        (true, HeaderId::new("x-key").shown(), "sk-12345"),
        (false, HeaderId::new("x-key").shown(), &long),
    ] {
        let (log, _guard) = listen();
        let limits = Limits::builder().limit("requests", Limit::per_hour(1));
        let limits = limits.redact_ids(redacts).build().unwrap();
        let limiter = Limiter::new(limits, MemoryBackend::new());
        let layer = RateLimitLayer::with_limiter(limiter)
            .rule(Rule::new("requests", rule))
            .refusal_ids(true);
        for _ in 0..2 {
            let request = Request::builder()
                .header("x-key", key)
                .body(Full::<Bytes>::default());
            layer.layer(Hello).oneshot(request.unwrap()).await.unwrap();
        }
        let events = events(&log);
        assert_eq!(events.len(), 1, "{log:?}");
        let client = format!(" id=\"{}\" ", Id::from(key).secret().shown());
        assert!(events[0].contains(&client), "{events:?}");
        assert!(!events[0].contains(key), "{events:?}");
    }
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn event_has_the_route_but_not_the_path() {
    use axum::{Router, body::Body, routing::get};

    let (log, _guard) = listen();
    let layer = RateLimitLayer::new(Limit::per_hour(1), Everyone).refusal_ids(true);
    let hello = get(|| async { "hello" });
    let app = Router::new().route("/users/{id}", hello).layer(layer);
    for _ in 0..2 {
        let request = Request::get("/users/secret").body(Body::empty());
        app.clone().oneshot(request.unwrap()).await.unwrap();
    }
    let events = events(&log);
    assert_eq!(events.len(), 1, "{log:?}");
    assert!(events[0].contains(" path=\"/users/{id}\" "), "{events:?}");
    assert!(!events[0].contains("secret"), "{events:?}");
}

#[tokio::test]
async fn decisions_of_a_handler_have_references_too() {
    let (log, _guard) = listen();
    let layer = one_per_hour().refusal_ids(true);
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
    let events = events(&log);
    assert_eq!(events.len(), 1, "{log:?}");
    assert!(
        events[0].starts_with(&format!("refusal_id=\"{id}\" ")),
        "{events:?}"
    );
    assert!(events[0].contains(" id=\"alice\" "), "{events:?}");
}
