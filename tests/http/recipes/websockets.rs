include!("pages/websockets.rs");

use std::net::SocketAddr;

use http::{Request, StatusCode, header};
use http_body_util::Empty;
use hyper::{client::conn::http1, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

async fn serve(limiter: Limiter) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app(limiter).unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

/// A WebSocket client that knows short frames only.
struct Client(TokioIo<Upgraded>);

impl Client {
    async fn connect(address: SocketAddr) -> Result<Self, StatusCode> {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        let request = Request::get("/echo")
            .header(header::HOST, "localhost")
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==");
        let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(response.status());
        }
        let upgraded = hyper::upgrade::on(response).await.unwrap();
        Ok(Self(TokioIo::new(upgraded)))
    }

    /// Sends a text, and returns the opcode and the payload of the answer.
    async fn say(&mut self, text: &str) -> (u8, Vec<u8>) {
        let length = u8::try_from(text.len()).unwrap();
        // The last frame of a text, masked by zeros.
        let mut frame = vec![0x81, 0x80 | length, 0, 0, 0, 0];
        frame.extend_from_slice(text.as_bytes());
        self.0.write_all(&frame).await.unwrap();
        let mut head = [0; 2];
        self.0.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; head[1].into()];
        self.0.read_exact(&mut payload).await.unwrap();
        (head[0] & 0x0f, payload)
    }
}

#[tokio::test]
async fn messages_beyond_the_limit_close_the_connection() {
    let (limiter, _) = super::limiter(limits());
    let address = serve(limiter).await;
    let mut first = Client::connect(address).await.unwrap();
    for i in 0..6 {
        let text = format!("message {i}");
        assert_eq!(first.say(&text).await, (1, text.into_bytes()));
    }
    // Another connection of the same client has the same budget.
    let mut second = Client::connect(address).await.unwrap();
    for _ in 0..4 {
        assert_eq!(second.say("hello").await.0, 1);
    }
    let (opcode, payload) = second.say("hello").await;
    assert_eq!((opcode, &payload[..2]), (8, &1008_u16.to_be_bytes()[..]));
    assert_eq!(&payload[2..], b"too many messages");
}

#[tokio::test]
async fn connections_have_a_limit_of_their_own() {
    let (limiter, _) = super::limiter(limits());
    let address = serve(limiter).await;
    for _ in 0..10 {
        assert!(Client::connect(address).await.is_ok());
    }
    let refused = Client::connect(address).await;
    assert_eq!(refused.err(), Some(StatusCode::TOO_MANY_REQUESTS));
}
