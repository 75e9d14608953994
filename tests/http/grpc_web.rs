//! gRPC-Web over HTTP/1.1, with tonic-web's layer outside of the limit, and inside.

#![cfg(feature = "tonic")]

use std::{net::SocketAddr, time::Duration};

use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tollgate::{Limit, clock::ManualClock};
use tonic::{
    Code,
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
        let status = refused.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{order:?}");
        let message = status.message();
        assert!(message.starts_with("too many requests ("), "{message}");
        let info = status.get_details_retry_info().unwrap();
        assert_eq!(info.retry_delay, Some(Duration::from_secs(60)), "{order:?}");
        let pushback = status.metadata().get("grpc-retry-pushback-ms").unwrap();
        assert_eq!(pushback.to_str().unwrap(), "60000", "{order:?}");
    }
}
