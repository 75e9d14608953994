//! Two servers that share one Redis: a client has 20 requests per hour, whichever server it talks to.
//!
//! ```sh
//! redis-server &
//! cargo run --example fleet --features redis
//! for i in $(seq 11); do curl -si http://127.0.0.1:3001/ http://127.0.0.1:3002/ | grep '^ratelimit:'; done
//! ```
//!
//! They run in one process so that one command starts them, but share nothing: each has its own limits, limiter and
//! connection. Name another Redis and any number of addresses: `fleet redis-cluster://127.0.0.1:7000 127.0.0.1:3001
//! 127.0.0.1:3002 127.0.0.1:3003`.

#[path = "shared/failure.rs"]
mod failure;

use std::{env, error::Error, net::SocketAddr, time::Duration};

use axum::{Router, routing::get};
use tokio::{net::TcpListener, task::JoinSet};
use tollgate::{ClientIp, Limit, Limiter, Limits, RateLimitLayer, RedisBackend, Rule};

use self::failure::Failure;

/// The longest that Redis may take for a decision.
const PATIENCE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().init();
    let mut args = env::args().skip(1);
    let url = args.next().unwrap_or("redis://127.0.0.1:6379".into());
    let mut addresses: Vec<_> = args.collect();
    if addresses.is_empty() {
        addresses = ["127.0.0.1:3001", "127.0.0.1:3002"].map(Into::into).into();
    }

    let mut servers = JoinSet::new();
    for address in addresses {
        let app = app(&url).await?;
        let listener = TcpListener::bind(address).await?;
        println!("listening on http://{}", listener.local_addr()?);
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        servers.spawn(async { axum::serve(listener, service).await });
    }
    while let Some(ended) = servers.join_next().await {
        ended??;
    }
    Ok(())
}

/// The whole program of each server. It would be the same on several machines.
async fn app(url: &str) -> Result<Router, Box<dyn Error>> {
    // There are no decisions without Redis here, so a slow answer is better than an error.
    let redis = RedisBackend::builder(url).timeout(PATIENCE).build()?;
    redis.connected(Duration::from_secs(10)).await?;
    let limits = Limits::builder()
        .limit("requests", Limit::per_hour(20))
        .build()?;
    let limiter = Limiter::new(limits, redis);
    let layer = RateLimitLayer::with_limiter(limiter).rule(Rule::new("requests", ClientIp::peer()));
    Ok(Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(layer))
}
