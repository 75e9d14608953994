//! gRPC's standard health service behind the layer: 5 calls per second per client, then
//! `RESOURCE_EXHAUSTED`.
//!
//! ```sh
//! cargo run --example tonic --features tonic
//! ```

#[path = "shared/failure.rs"]
mod failure;

use std::{env, net::SocketAddr};

use tokio::net::TcpListener;
use tollgate::{ClientIp, Limit, RateLimitLayer};
use tonic::transport::{Server, server::TcpIncoming};

use self::failure::Failure;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let layer = RateLimitLayer::new(Limit::per_second(5), ClientIp::peer());

    let (reporter, health) = tonic_health::server::health_reporter();
    reporter
        .set_service_status("", tonic_health::ServingStatus::Serving)
        .await;
    let address: SocketAddr = env::var("ADDR")
        .unwrap_or_else(|_| "127.0.0.1:3000".into())
        .parse()?;
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    Server::builder()
        .layer(layer)
        .add_service(health)
        .serve_with_incoming(TcpIncoming::from(listener))
        .await?;
    Ok(())
}
