//! gRPC-Web over HTTP/1.1, with tonic-web's layer outside of the limit, and inside.

#![cfg(feature = "tonic")]

use std::{net::SocketAddr, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, Request, Version, header};
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tollgate::{Limit, clock::ManualClock};
use tonic::{
    Code, Status,
    transport::{Server, server::TcpIncoming},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;
use tonic_web::{GrpcWebClientLayer, GrpcWebLayer};
use tower::Layer;

use crate::{
    grpc::tonic_client::{bind, health},
    support::{layer, limiter_of},
};

/// The byte that begins a frame of trailers. One of a message begins with 0.
const TRAILERS: u8 = 0x80;

/// The order of layers, the outer one first.
#[derive(Clone, Copy, Debug)]
enum Order {
    WebThenLimit,
    LimitThenWeb,
}

/// Starts a server that admits one call a minute.
async fn serve(order: Order) -> SocketAddr {
    let (listener, address) = bind().await;
    let incoming = TcpIncoming::from(listener);
    let limit = layer(&limiter_of(&ManualClock::default(), Limit::per_minute(1)));
    let server = Server::builder().accept_http1(true);
    match order {
        Order::WebThenLimit => {
            let mut server = server.layer(GrpcWebLayer::new()).layer(limit);
            let server = server.add_service(health().await);
            tokio::spawn(server.serve_with_incoming(incoming));
        }
        Order::LimitThenWeb => {
            let mut server = server.layer(limit).layer(GrpcWebLayer::new());
            let server = server.add_service(health().await);
            tokio::spawn(server.serve_with_incoming(incoming));
        }
    }
    address
}

fn check_refusal(status: &Status, case: &str) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{case}");
    let message = status.message();
    assert!(
        message.starts_with("too many requests ("),
        "{case}: {message}"
    );
    let info = status.get_details_retry_info().unwrap();
    assert_eq!(info.retry_delay, Some(Duration::from_secs(60)), "{case}");
    let pushback = &status.metadata().get("grpc-retry-pushback-ms").unwrap();
    assert_eq!(pushback.to_str().unwrap(), "60000", "{case}");
}

#[tokio::test]
async fn client_of_tonic_web_gets_the_status_in_both_orders() {
    for order in [Order::WebThenLimit, Order::LimitThenWeb] {
        let address = serve(order).await;
        let http = Client::builder(TokioExecutor::new()).build_http();
        let web = GrpcWebClientLayer::new().layer(http);
        let origin = format!("http://{address}").parse().unwrap();
        let mut client = HealthClient::with_origin(web, origin);
        client.check(HealthCheckRequest::default()).await.unwrap();
        let refused = client.check(HealthCheckRequest::default()).await;
        check_refusal(&refused.unwrap_err(), &format!("{order:?}"));
    }
}

/// Calls the health service as a page does, and returns the status in the head of the response or in the frame of trailers.
async fn call(address: SocketAddr, content_type: &str) -> Status {
    let is_text = content_type.contains("-text");
    let message = Bytes::from_static(&[0; 5]);
    let body = if is_text {
        BASE64_STANDARD.encode(message).into()
    } else {
        message
    };
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://{address}/grpc.health.v1.Health/Check"))
        .header(header::CONTENT_TYPE, content_type)
        .header(header::ACCEPT, content_type)
        .body(Full::new(body))
        .unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http();
    let (head, body) = client.request(request).await.unwrap().into_parts();
    assert_eq!(head.version, Version::HTTP_11);
    let answered = head.headers[header::CONTENT_TYPE].to_str().unwrap();
    let kind = if is_text {
        "application/grpc-web-text"
    } else {
        "application/grpc-web"
    };
    assert!(answered.starts_with(kind), "{answered}");
    assert_eq!(answered.contains("-text"), is_text, "{answered}");
    let body = body.collect().await.unwrap().to_bytes();
    let frames = if is_text {
        // Each part of the body can be padded, so each four characters stand for themselves.
        let parts = body.chunks(4).map(|part| BASE64_STANDARD.decode(part));
        parts.collect::<Result<Vec<_>, _>>().unwrap().concat()
    } else {
        body.into()
    };
    let mut headers = head.headers;
    headers.extend(trailers(&frames));
    Status::from_header_map(&headers).expect("every response has a status")
}

/// Reads the frames of a body: a byte for the kind, the length in four bytes, and the content.
fn trailers(mut frames: &[u8]) -> HeaderMap {
    let mut found = HeaderMap::new();
    while let Some((head, rest)) = frames.split_first_chunk::<5>() {
        let [kind, length @ ..] = *head;
        let length = u32::from_be_bytes(length).try_into().unwrap();
        let (content, rest) = rest.split_at(length);
        frames = rest;
        if kind == TRAILERS {
            let lines = str::from_utf8(content).unwrap().lines();
            let pairs = lines.map(|line| line.split_once(':').unwrap());
            found.extend(pairs.map(|(name, value)| {
                let name: HeaderName = name.parse().unwrap();
                (Some(name), value.trim().parse().unwrap())
            }));
        }
    }
    assert!(frames.is_empty(), "a frame is cut off");
    found
}

#[tokio::test]
async fn page_gets_the_status_in_both_orders_in_binary_and_as_text() {
    for order in [Order::WebThenLimit, Order::LimitThenWeb] {
        for content_type in [
            "application/grpc-web",
            "application/grpc-web+proto",
            "application/grpc-web-text",
            "application/grpc-web-text+proto",
        ] {
            let case = format!("{order:?}, {content_type}");
            let address = serve(order).await;
            assert_eq!(call(address, content_type).await.code(), Code::Ok, "{case}");
            check_refusal(&call(address, content_type).await, &case);
        }
    }
}
