//! An axum server that lets each client IP make 10 requests per second, 20 of them at once.
//!
//! ```sh
//! cargo run --example quickstart
//! curl -s -o /dev/null -w '%{http_code} ' 'http://127.0.0.1:3000/?[1-30]'
//! ```

#[path = "shared/failure.rs"]
mod failure;

use std::{env, net::SocketAddr};

use axum::{Router, routing::get};
use tokio::net::TcpListener;
use tollgate::{ClientIp, Limit, RateLimitLayer};

use self::failure::Failure;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let limit = Limit::per_second(10).burst(20);
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(RateLimitLayer::new(limit.clone(), ClientIp::peer()));

    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".into());
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}");
    println!(
        "the limit of each client: {limit}; above it, a request gets a 429 with the time to wait"
    );
    println!("try: curl -s -o /dev/null -w '%{{http_code}} ' 'http://{address}/?[1-30]'");
    axum::serve(
        listener,
        app.into_make_service_with_connect_info::<SocketAddr>(),
    )
    .await?;
    Ok(())
}
