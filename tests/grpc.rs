//! The layer in tonic servers, with a real tonic client.

#![cfg(feature = "tonic")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod support;

use std::{net::SocketAddr, time::Duration};

use support::{layer, limiter_of};
use tokio::net::TcpListener;
use tollgate::{Limit, RateLimitLayer, clock::ManualClock, tiers::Tier};
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
use tower::Layer;

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
async fn layer_of_a_server_says_resource_exhausted() {
    let (incoming, address) = bind().await;
    let server = Server::builder()
        .layer(two_calls())
        .add_service(health().await);
    tokio::spawn(server.serve_with_incoming(incoming));
    is_exhausted_by_two_calls(address).await;
}

#[tokio::test]
async fn layer_round_one_service_keeps_its_name() {
    let (incoming, address) = bind().await;
    let limited = two_calls().layer(health().await);
    let server: Router = Server::builder().add_service(limited);
    tokio::spawn(server.serve_with_incoming(incoming));
    is_exhausted_by_two_calls(address).await;
}

/// What the second call is told, if the first takes all there is.
async fn second_call(tier: Tier) -> Status {
    let (incoming, address) = bind().await;
    let limit = Limit::tiers([tier]).unwrap();
    let layer = layer(&limiter_of(&ManualClock::default(), limit));
    let server = Server::builder().layer(layer).add_service(health().await);
    tokio::spawn(server.serve_with_incoming(incoming));
    let mut client = client(address).await;
    check(&mut client).await.unwrap();
    check(&mut client).await.unwrap_err()
}

#[tokio::test]
async fn call_that_tiers_deny_is_told_when_to_come_back_if_it_may() {
    let later = second_call(Tier::new(1, Duration::from_secs(30))).await;
    assert_eq!(later.code(), Code::ResourceExhausted);
    assert!(later.message().contains("retry in 31 s"), "{later}");
    assert_eq!(later.metadata().get("retry-after").unwrap(), "31");
    let never = second_call(Tier::new(1, Tier::FOREVER)).await;
    assert_eq!(never.code(), Code::ResourceExhausted);
    assert!(!never.message().contains("retry"), "{never}");
    assert!(never.metadata().get("retry-after").is_none());
}
