//! Servers and runtimes that end while requests wait in line.

#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{future::pending, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, routing::get, serve::Listener};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{DuplexStream, duplex},
    runtime::{Builder, Runtime},
    sync::{mpsc, oneshot},
    task::{AbortHandle, yield_now},
    time::Instant,
};
use tollgate::{
    Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::Backend,
    clock::{ManualClock, TokioClock},
    key::Everyone,
};
use tower::{Layer, ServiceExt};

use crate::support::{
    Hello, bucket,
    patience::{LINE, Slow, T, runtimes, settle},
};

fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder().limit("requests", LINE).build().unwrap();
    Limiter::new(limits, backend)
}

fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("requests", Everyone))
}

async fn use_up(limiter: &Limiter) {
    let burst = Transaction::new("requests", "everyone").cost(2);
    assert!(limiter.spend(&burst).await.unwrap().allowed());
}

/// How long until the bucket is full.
async fn taken(limiter: &Limiter) -> Duration {
    bucket(limiter, "requests", "everyone").await.reset_after()
}

/// Accepts connections in memory, so that the clock can stand still.
struct InMemory(mpsc::UnboundedReceiver<DuplexStream>);

const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

impl Listener for InMemory {
    type Io = DuplexStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (DuplexStream, SocketAddr) {
        match self.0.recv().await {
            Some(stream) => (stream, PEER),
            None => pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(PEER)
    }
}

/// A client that has sent a request on a connection of its own.
struct Client {
    answer: tokio::task::JoinHandle<hyper::Result<StatusCode>>,
    connection: AbortHandle,
}

impl Client {
    async fn send(server: &mpsc::UnboundedSender<DuplexStream>) -> Self {
        let (ours, theirs) = duplex(64 * 1024);
        let _ = server.send(theirs);
        let (mut sender, connection) = http1::handshake(TokioIo::new(ours)).await.unwrap();
        let connection = tokio::spawn(connection).abort_handle();
        let request = Request::get("/").header(header::HOST, "server");
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let answer = tokio::spawn(async move {
            let response = sender.send_request(request).await?;
            Ok(response.status())
        });
        settle().await;
        Self { answer, connection }
    }
}

#[tokio::test(start_paused = true)]
async fn graceful_shutdown_answers_the_requests_in_line_and_refunds_those_who_leave() {
    let limiter = limiter(MemoryBackend::new()).with_clock(TokioClock::default());
    let (connect, connections) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let app = Router::new().route("/", get(async || "hello"));
    let served = axum::serve(InMemory(connections), app.layer(layer(&limiter)));
    let served = served.with_graceful_shutdown(async { stopped.await.unwrap() });
    let served = tokio::spawn(served.into_future());
    use_up(&limiter).await;
    let (began, mut clients) = (Instant::now(), Vec::new());
    for _ in 0..4 {
        clients.push(Client::send(&connect).await);
    }
    assert_eq!(taken(&limiter).await, 6 * T, "four wait");
    stop.send(()).unwrap();
    settle().await;
    let late = Client::send(&connect).await;
    assert_eq!(taken(&limiter).await, 6 * T, "no other request is admitted");
    clients.pop().unwrap().connection.abort();
    settle().await;
    assert_eq!(taken(&limiter).await, 5 * T, "the last one has left");
    for (client, turn) in clients.into_iter().zip(1..) {
        assert_eq!(client.answer.await.unwrap().unwrap(), StatusCode::OK);
        assert_eq!(began.elapsed(), turn * T);
    }
    served.await.unwrap().unwrap();
    assert_eq!(began.elapsed(), 3 * T);
    assert!(late.answer.await.unwrap().is_err());
    assert_eq!(
        taken(&limiter).await,
        2 * T,
        "those who started stay charged"
    );
}

/// Lets a runtime end while a request waits, and returns how much is taken afterwards. The clock stands still.
fn taken_after_the_end_of(runtime: Runtime, limiter: &Limiter) -> Duration {
    runtime.block_on(async {
        use_up(limiter).await;
        let request = Request::new(Full::<Bytes>::default());
        tokio::spawn(layer(limiter).layer(Hello).oneshot(request));
        while taken(limiter).await < 3 * T {
            yield_now().await;
        }
    });
    drop(runtime);
    let another = Builder::new_current_thread().build().unwrap();
    another.block_on(taken(limiter))
}

#[test]
fn runtime_that_ends_refunds_a_request_in_line_if_the_store_does_not_wait() {
    for runtime in runtimes() {
        let limiter = limiter(MemoryBackend::new()).with_clock(ManualClock::default());
        assert_eq!(taken_after_the_end_of(runtime, &limiter), 2 * T);
    }
}

#[test]
fn runtime_that_ends_leaves_the_charge_at_a_store_that_waits() {
    for runtime in runtimes() {
        let store = Slow::default();
        let gates = Arc::clone(&store.gates);
        gates.open();
        let limiter = limiter(store).with_clock(ManualClock::default());
        assert_eq!(taken_after_the_end_of(runtime, &limiter), 3 * T);
        assert_eq!(gates.counts(), (2, 0), "nothing could be sent");
    }
}
