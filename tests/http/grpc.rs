//! The layer in tonic servers, with a real tonic client.

#![cfg(feature = "tonic")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{net::SocketAddr, time::Duration};

use tokio::net::TcpListener;
use tollgate::{
    Limit, Limiter, Limits, RateLimitLayer, clock::ManualClock, limit::LimitName, tiers::Tier,
};
use tonic::{
    Code, Status,
    transport::{
        Channel, Endpoint, Server,
        server::{Router, TcpIncoming},
    },
};
use tonic_health::{
    ServingStatus,
    pb::{HealthCheckRequest, health_client::HealthClient, health_server},
    server::{HealthReporter, HealthService},
};
use tonic_types::StatusExt;
use tower::Layer;

use crate::support::{
    layer, limiter_of,
    store::{Fate, Store},
};

type Health = health_server::HealthServer<HealthService>;

async fn health() -> Health {
    let reporter = HealthReporter::new();
    reporter
        .set_service_status("", ServingStatus::Serving)
        .await;
    Health::new(HealthService::from_health_reporter(reporter))
}

fn two_calls() -> RateLimitLayer {
    layer(&limiter_of(&ManualClock::default(), Limit::per_minute(2)))
}

async fn bind() -> (TcpIncoming, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (TcpIncoming::from(listener), address)
}

async fn client(address: SocketAddr) -> HealthClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    HealthClient::new(endpoint.connect().await.unwrap())
}

async fn check(client: &mut HealthClient<Channel>) -> Result<i32, Status> {
    let answer = client.check(HealthCheckRequest::default()).await?;
    Ok(answer.into_inner().status)
}

async fn is_exhausted_by_two_calls(address: SocketAddr) {
    let mut client = client(address).await;
    for _ in 0..2 {
        assert_eq!(
            check(&mut client).await.unwrap(),
            ServingStatus::Serving as i32
        );
    }
    let status = check(&mut client).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(
        status.message(),
        "too many requests (2 per 1m0s, 2 at once) from 127.0.0.1: retry in 30 s"
    );
    assert_eq!(status.metadata().get("retry-after").unwrap(), "30");
}

#[tokio::test]
async fn layer_round_one_service_keeps_its_name() {
    let (incoming, address) = bind().await;
    let limited = two_calls().layer(health().await);
    let server: Router = Server::builder().add_service(limited);
    tokio::spawn(server.serve_with_incoming(incoming));
    is_exhausted_by_two_calls(address).await;
}

/// The status of a call through a layer.
async fn refusal_by(layer: RateLimitLayer) -> Status {
    let (incoming, address) = bind().await;
    let server = Server::builder().layer(layer).add_service(health().await);
    tokio::spawn(server.serve_with_incoming(incoming));
    check(&mut client(address).await).await.unwrap_err()
}

/// When the client of this status comes back: by `Retry-After`, by `RetryInfo`, and by the pushback.
fn waits(status: &Status) -> (Option<Duration>, Option<Duration>, i32) {
    let metadata = |name| status.metadata().get(name).map(|v| v.to_str().unwrap());
    let after = metadata("retry-after").map(|secs| Duration::from_secs(secs.parse().unwrap()));
    let info = status.get_details_retry_info();
    let pushback = metadata("grpc-retry-pushback-ms").unwrap();
    let info = info.map(|info| info.retry_delay.unwrap());
    (after, info, pushback.parse().unwrap())
}

/// A limit whose only call has been taken.
fn exhausted(period: Duration) -> Limiter {
    let limit = Limit::new(1, 1, period).unwrap();
    let limiter = limiter_of(&ManualClock::default(), limit);
    let taken = tollgate::Transaction::new("requests", "127.0.0.1");
    assert!(limiter.try_spend(&taken).unwrap().unwrap().allowed());
    limiter
}

#[tokio::test]
async fn retry_info_is_exact_and_the_pushback_is_rounded_up_to_a_millisecond() {
    let cases = [
        (333_334, 1, 334),
        (30_000_000, 30, 30_000),
        (86_400_000_001, 86_401, 86_400_001),
        // Beyond all integers, which is the longest pushback.
        (2_000_000_000_000_000, 2_000_000_000, i32::MAX),
    ];
    for (period, secs, ms) in cases {
        let status = refusal_by(layer(&exhausted(Duration::from_micros(period)))).await;
        assert_eq!(status.code(), Code::ResourceExhausted);
        let (after, info, pushback) = waits(&status);
        assert_eq!(after, Some(Duration::from_secs(secs)));
        assert_eq!(info, Some(Duration::from_micros(period)));
        assert_eq!(pushback, ms);
        let violations = status.get_details_quota_failure().unwrap().violations;
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].subject, "requests:127.0.0.1");
        assert!(violations[0].description.starts_with("too many requests ("));
    }
}

#[tokio::test]
async fn jitter_is_the_same_in_all_places() {
    let jitter = Duration::from_secs(10_000);
    let mut all = Vec::new();
    for _ in 0..10 {
        let status = refusal_by(layer(&exhausted(Duration::from_secs(60))).jitter(jitter)).await;
        let (after, info, pushback) = waits(&status);
        let wait = info.unwrap();
        let secs = wait.as_micros().div_ceil(1_000_000);
        assert_eq!(u128::from(after.unwrap().as_secs()), secs);
        assert!((60..=10_060).contains(&wait.as_secs()), "{wait:?}");
        let ms = wait.as_micros().div_ceil(1000);
        assert_eq!(u128::try_from(pushback).unwrap(), ms);
        all.push(wait);
    }
    all.dedup();
    assert!(all.len() > 1, "{all:?}");
}

#[tokio::test]
async fn who_never_passes_is_told_not_to_retry() {
    let limits = [
        Limit::BLOCKED,
        Limit::tiers([Tier::new(1, Tier::FOREVER)]).unwrap(),
    ];
    for limit in limits {
        let limiter = limiter_of(&ManualClock::default(), limit);
        let taken = tollgate::Transaction::new("requests", "127.0.0.1");
        let _ = limiter.try_spend(&taken).unwrap().unwrap();
        let status = refusal_by(layer(&limiter)).await;
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(waits(&status), (None, None, -1));
        assert!(status.get_details_quota_failure().is_some());
    }
}

#[tokio::test]
async fn store_that_does_not_answer_is_unavailable_with_a_pushback() {
    let limits = Limits::builder().limit("requests", Limit::per_minute(1));
    let limiter = Limiter::new(limits.build().unwrap(), Store::new(Fate::Away));
    let status = refusal_by(layer(&limiter)).await;
    assert_eq!(status.code(), Code::Unavailable);
    let (after, info, pushback) = waits(&status);
    assert_eq!(after, Some(Duration::from_secs(1)));
    assert_eq!(info, after);
    assert_eq!(pushback, 1000);
    assert!(status.get_details_quota_failure().is_none());
}

#[tokio::test]
async fn message_in_any_script_arrives_whole() {
    let name = LimitName::from("requests").description("Prüfungen, 100\u{a0}% \"wahr\"");
    let limits = Limits::builder().limit(name, Limit::BLOCKED).build();
    let limiter = Limiter::new(limits.unwrap(), tollgate::MemoryBackend::new());
    let message = "Prüfungen, 100\u{a0}% \"wahr\" are blocked for 127.0.0.1";
    assert_eq!(refusal_by(layer(&limiter)).await.message(), message);
}

#[cfg(feature = "axum")]
mod one_port {
    use axum::{Router, routing::get};
    use bytes::Bytes;
    use http::{Request, StatusCode, header};
    use http_body_util::{BodyExt, Full};
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::net::TcpStream;
    use tonic::service::Routes;

    use super::*;

    /// The status and the body of a page.
    async fn page(address: SocketAddr) -> (StatusCode, Bytes) {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("/").header(header::HOST, "localhost");
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status();
        (
            status,
            response.into_body().collect().await.unwrap().to_bytes(),
        )
    }

    #[tokio::test]
    async fn axum_and_tonic_behind_one_layer_share_a_bucket() {
        let app = Router::new()
            .route("/", get(|| async { "hello" }))
            .merge(Routes::new(health().await).into_axum_router())
            .layer(two_calls());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });

        let mut client = client(address).await;
        assert_eq!(page(address).await, (StatusCode::OK, "hello".into()));
        assert_eq!(
            check(&mut client).await.unwrap(),
            ServingStatus::Serving as i32
        );
        let status = check(&mut client).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(waits(&status).1, Some(Duration::from_secs(30)));
        let (status, body) = page(address).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(json["title"], "Quota Exceeded");
    }
}
