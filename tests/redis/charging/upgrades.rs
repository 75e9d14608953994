//! Connections that become something else: what was reserved for them stays until the handler settles it.

use std::{convert::Infallible, sync::Arc};

use axum::{Router, body::Body, routing::any};
use http::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc::{UnboundedSender, unbounded_channel},
};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, backend::Backend,
    clock::ManualClock, key::Everyone, layer::Assessment,
};
use tower::{Layer, ServiceExt, service_fn};

use super::{on_each_backend, stack::remaining};

on_each_backend!(
    reservation_of_an_upgraded_connection_stays_until_its_handler_settles,
    refund_of_an_upgrade_is_by_its_head,
);

/// Answers 101, then sends back what it hears, and settles a token for each byte when it hears no more.
async fn echo(mut request: Request<Body>, settled: UnboundedSender<()>) -> Response<Body> {
    let assessment = request.extensions().get::<Assessment>().cloned().unwrap();
    let upgrading = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut connection = TokioIo::new(upgrading.await.unwrap());
        let (mut heard, mut buffer) = (0, [0; 64]);
        while let Ok(read @ 1..) = connection.read(&mut buffer).await {
            heard += read;
            connection.write_all(&buffer[..read]).await.unwrap();
        }
        let budget = assessment.of("l").unwrap();
        budget.settle(u32::try_from(heard).unwrap()).await.unwrap();
        settled.send(()).unwrap();
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, "echo")
        .body(Body::empty())
        .unwrap()
}

async fn serve(limiter: &Limiter, rule: Rule, settled: UnboundedSender<()>) -> TcpStream {
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let layer = layer.extensions(true);
    let echo = any(move |request| echo(request, settled.clone()));
    let app = Router::new().route("/", echo).layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    TcpStream::connect(address).await.unwrap()
}

async fn upgrade(connection: &mut TcpStream) {
    let request = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", head.escape_ascii());
}

fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder().limit("l", Limit::per_hour(100));
    Limiter::new(limits.build().unwrap(), backend).with_clock(ManualClock::default())
}

async fn reservation_of_an_upgraded_connection_stays_until_its_handler_settles(
    backend: impl Backend,
) {
    let limiter = limiter(backend);
    let asked = Arc::new(());
    let ask = Arc::downgrade(&asked);
    let rule = Rule::new("l", Everyone).cost(40).settle_by(move |_| {
        assert!(ask.upgrade().is_none(), "the connection goes on");
        0
    });
    let (settled, mut hear) = unbounded_channel();
    let mut connection = serve(&limiter, rule, settled).await;
    upgrade(&mut connection).await;
    for text in ["hello", "world"] {
        connection.write_all(text.as_bytes()).await.unwrap();
        let mut echoed = [0; 5];
        connection.read_exact(&mut echoed).await.unwrap();
        assert_eq!(echoed, text.as_bytes());
        assert_eq!(remaining(&limiter, "l").await, 60);
    }
    drop(connection);
    hear.recv().await.unwrap();
    assert_eq!(remaining(&limiter, "l").await, 90);
}

async fn refund_of_an_upgrade_is_by_its_head(backend: impl Backend) {
    let limiter = limiter(backend);
    let rule = Rule::new("l", Everyone)
        .cost(40)
        .refund_if(|ending| ending.status() == Some(StatusCode::SWITCHING_PROTOCOLS));
    let (settled, _hear) = unbounded_channel();
    let mut connection = serve(&limiter, rule, settled).await;
    upgrade(&mut connection).await;
    assert_eq!(remaining(&limiter, "l").await, 100);
}

#[tokio::test]
async fn tunnel_keeps_its_reservation_and_a_refused_one_does_not() {
    let limiter = limiter(MemoryBackend::new());
    let rule = Rule::new("l", Everyone).cost(40).settle_by(|_| 1);
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    for (method, status, expected) in [
        (Method::CONNECT, StatusCode::BAD_GATEWAY, 99),
        (Method::GET, StatusCode::OK, 98),
        (Method::CONNECT, StatusCode::OK, 58),
    ] {
        let answer = service_fn(move |_: Request<Body>| async move {
            let response = Response::builder().status(status);
            Ok::<_, Infallible>(response.body(Body::empty()).unwrap())
        });
        let request = Request::builder().method(method).uri("example.com:443");
        let request = request.body(Body::empty()).unwrap();
        layer.layer(answer).oneshot(request).await.unwrap();
        assert_eq!(remaining(&limiter, "l").await, expected, "{status}");
    }
}
