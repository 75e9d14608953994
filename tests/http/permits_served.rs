//! Permits of streams over real connections: server-sent events, WebSockets and gRPC, which end or whose clients disconnect.

#![cfg(all(feature = "axum", feature = "tonic"))]

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use axum::{
    Router,
    extract::ws::{WebSocket, WebSocketUpgrade},
    response::{
        Response,
        sse::{Event, Sse},
    },
    routing::get,
};
use futures_util::{Stream, stream};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, key::Everyone, layer::Assessment,
};
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::support::bucket;

/// How long anything may take before the test gives up on it.
const PATIENCE: Duration = Duration::from_secs(120);

fn limiter() -> Limiter {
    let limits = Limits::builder().limit("streams", Limit::concurrent(1));
    Limiter::new(limits.build().unwrap(), MemoryBackend::new())
}

fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("streams", Everyone))
}

async fn left(limiter: &Limiter) -> u32 {
    let bucket = bucket(limiter, "streams", "everyone").await;
    bucket.remaining().unwrap()
}

/// Waits until the server has noticed that its client is gone.
async fn is_given_back(limiter: &Limiter) {
    let comes = async {
        while left(limiter).await == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, comes).await.unwrap();
}

/// Events without end, or some.
fn events(count: usize) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(count, |left| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        (left > 0).then(|| (Ok(Event::default().data("token")), left - 1))
    })
}

/// Holds its permits for as long as the connection.
async fn chat(assessment: Assessment, upgrade: WebSocketUpgrade) -> Response {
    let permits = assessment.permits();
    upgrade.on_upgrade(move |mut socket: WebSocket| async move {
        while let Some(Ok(message)) = socket.recv().await {
            if socket.send(message).await.is_err() {
                break;
            }
        }
        drop(permits);
    })
}

async fn serve(limiter: &Limiter) -> SocketAddr {
    let app = Router::new()
        .route("/some", get(async || Sse::new(events(3))))
        .route("/endless", get(async || Sse::new(events(usize::MAX))))
        .layer(layer(limiter))
        .route("/chat", get(chat).layer(layer(limiter).extensions(true)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// Sends a request, and reads until the answer has this text.
async fn send(address: SocketAddr, path: &str, headers: &str, until: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains(until) {
        let mut bytes = [0; 256];
        let count = stream.read(&mut bytes).await.unwrap();
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&bytes[..count]);
    }
    stream
}

const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
    sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[tokio::test]
async fn events_hold_permits_until_they_end_or_their_client_disconnects() {
    let limiter = limiter();
    let address = serve(&limiter).await;
    for _ in 0..2 {
        let client = send(address, "/endless", "", "token").await;
        assert_eq!(left(&limiter).await, 0);
        send(address, "/some", "", "429 Too Many Requests").await;
        drop(client);
        is_given_back(&limiter).await;
        let mut client = send(address, "/some", "connection: close\r\n", "token").await;
        client.read_to_end(&mut Vec::new()).await.unwrap();
        is_given_back(&limiter).await;
    }
}

#[tokio::test]
async fn upgraded_connections_hold_permits_until_they_end() {
    let limiter = limiter();
    let address = serve(&limiter).await;
    for _ in 0..2 {
        let mut client = send(address, "/chat", UPGRADE, "101 Switching Protocols").await;
        // An empty text, masked by zeros, and its echo: the response itself has ended long ago.
        client.write_all(&[0x81, 0x80, 0, 0, 0, 0]).await.unwrap();
        client.read_exact(&mut [0; 2]).await.unwrap();
        assert_eq!(left(&limiter).await, 0);
        send(address, "/chat", UPGRADE, "429 Too Many Requests").await;
        drop(client);
        is_given_back(&limiter).await;
    }
}

#[tokio::test]
async fn grpc_streams_hold_permits_until_their_client_disconnects() {
    let limiter = limiter();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (reporter, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer(&limiter)).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = HealthClient::new(endpoint.connect().await.unwrap());
    for _ in 0..2 {
        let watched = client.watch(HealthCheckRequest::default()).await.unwrap();
        let mut watched = watched.into_inner();
        assert!(watched.message().await.unwrap().is_some());
        assert_eq!(left(&limiter).await, 0);
        let refused = client.check(HealthCheckRequest::default()).await;
        assert_eq!(refused.unwrap_err().code(), tonic::Code::ResourceExhausted);
        drop(watched);
        is_given_back(&limiter).await;
        client.check(HealthCheckRequest::default()).await.unwrap();
        is_given_back(&limiter).await;
    }
    drop(reporter);
}
