use axum::{
    Router,
    extract::{
        State,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code},
    },
    response::Response,
    routing::get,
};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule,
    layer::Assessment,
    limit::LimitsError,
    limiter::{LimitHandle, LimiterError, NotAdmitted},
};

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("connections", Limit::per_minute(10))
        .limit("open-connections", Limit::concurrent(3))
        .limit("messages", Limit::per_second(5).burst(10))
        .build()
}

fn app(limiter: Limiter) -> Result<Router, LimiterError> {
    let messages = limiter.limit("messages")?;
    let layer = RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("connections", ClientIp::peer()))
        .rule(Rule::new("open-connections", ClientIp::peer()))
        .extensions(true);
    Ok(Router::new()
        .route("/echo", get(upgrade).route_layer(layer))
        .with_state(messages))
}

async fn upgrade(
    upgrade: WebSocketUpgrade,
    State(messages): State<LimitHandle>,
    assessment: Assessment,
) -> Response {
    // Messages are charged to the client that the connection was charged to.
    let client = assessment.of("connections");
    let client = client.and_then(|client| client.id.as_ref());
    let client = client.map_or_else(String::new, |id| id.as_str().to_owned());
    // Without this, the connection would stop counting as soon as the upgrade is answered.
    let permit = assessment.permits();
    upgrade.on_upgrade(|socket| async move {
        echo(socket, messages, client).await;
        drop(permit);
    })
}

async fn echo(mut socket: WebSocket, messages: LimitHandle, client: String) {
    while let Some(Ok(message)) = socket.recv().await {
        if matches!(message, Message::Close(_)) {
            return;
        }
        if let Err(denied) = messages.admit(&client).await {
            let _ = socket.send(Message::Close(Some(closed(&denied)))).await;
            return;
        }
        if socket.send(message).await.is_err() {
            return;
        }
    }
}

/// ``limit `messages` exceeded (5 per second, 10 at once) from 203.0.113.7: retry in 1 s``
fn closed(denied: &NotAdmitted) -> CloseFrame {
    let (code, reason) = match denied.decision() {
        Some(_) => (close_code::POLICY, denied.to_string()),
        None => (close_code::AGAIN, "try again later".into()),
    };
    let reason = reason.into();
    CloseFrame { code, reason }
}

// The page ends here.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tollgate::{MemoryBackend, clock::ManualClock};

use crate::serve;

const UPGRADE: &str = "GET /echo HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Reads a frame of a server: its first byte, and its payload.
async fn frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).await.unwrap();
    let mut payload = vec![0; head[1].into()];
    stream.read_exact(&mut payload).await.unwrap();
    (head[0], payload)
}

#[tokio::test]
async fn message_above_the_limit_closes_its_connection_with_the_reason() {
    let limiter = Limiter::new(limits().unwrap(), MemoryBackend::new());
    let app = app(limiter.with_clock(ManualClock::default())).unwrap();
    let mut stream = TcpStream::connect(serve(app).await).await.unwrap();
    stream.write_all(UPGRADE.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"));
    // Masked by zeros.
    stream
        .write_all(&b"\x81\x82\0\0\0\0hi".repeat(11))
        .await
        .unwrap();
    for _ in 0..10 {
        assert_eq!(frame(&mut stream).await, (0x81, b"hi".to_vec()));
    }
    let (kind, payload) = frame(&mut stream).await;
    let reason =
        "limit `messages` exceeded (5 per second, 10 at once) from 127.0.0.1: retry in 1 s";
    assert_eq!((kind, &payload[..2]), (0x88, &1008_u16.to_be_bytes()[..]));
    assert_eq!(str::from_utf8(&payload[2..]), Ok(reason));
}
