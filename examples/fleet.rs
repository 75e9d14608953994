//! Two servers that share one Redis: a client has 20 requests per hour, whichever server it talks to.
//!
//! ```sh
//! redis-server &
//! cargo run --example fleet --features redis
//! for i in $(seq 11); do curl -si http://127.0.0.1:3001/ http://127.0.0.1:3002/ | grep '^ratelimit:'; done
//! ```
//!
//! They run in one process so that one command starts them, but share nothing: each has its own limits, limiter and
//! connection. Name another Redis and any number of addresses: `--redis redis-cluster://127.0.0.1:7000 --listen 127.0.0.1:3001
//! --listen 127.0.0.1:3002`.

#[path = "shared/failure.rs"]
mod failure;
#[path = "shared/shutdown.rs"]
mod shutdown;

use std::{error::Error, net::SocketAddr, time::Duration};

use axum::{Router, routing::get};
use clap::Parser;
use tokio::{net::TcpListener, task::JoinSet};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, RateLimitLayer, RedisBackend, Rule, backend::FailurePolicy,
};

use self::{failure::Failure, shutdown::Signals};

/// An error that a task can return.
type Report = Box<dyn Error + Send + Sync>;

#[derive(Debug, Parser)]
struct Args {
    #[arg(long, default_value = "redis://127.0.0.1:6379")]
    redis: String,
    /// The address of each server.
    #[arg(long, default_values = ["127.0.0.1:3001", "127.0.0.1:3002"])]
    listen: Vec<SocketAddr>,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    tracing_subscriber::fmt().init();
    let servers = u32::try_from(args.listen.len())?;
    let mut fleet = JoinSet::new();
    for address in args.listen {
        let limiter = limiter(&args.redis, servers).await?;
        let listener = TcpListener::bind(address).await?;
        let signals = Signals::listen()?;
        println!("listening on http://{}", listener.local_addr()?);
        fleet.spawn(serve(limiter, listener, signals));
    }
    while let Some(ended) = fleet.join_next().await {
        let served: Result<(), Report> = ended?;
        served.map_err(|error| -> Box<dyn Error> { error })?;
    }
    Ok(())
}

/// Connects to the Redis of the fleet. While it does not answer, each server decides with its share of the limit.
async fn limiter(url: &str, servers: u32) -> Result<Limiter, Failure> {
    let redis = RedisBackend::builder(url).timeout(Duration::from_secs(2));
    let redis = redis.build()?;
    redis.connected(Duration::from_secs(10)).await?;
    let limits = Limits::builder()
        .limit("requests", Limit::per_hour(20))
        .build()?;
    let policy = FailurePolicy::new(redis).deadline(Duration::from_secs(2));
    Ok(Limiter::try_new(limits, policy.fleet(servers))?)
}

/// The whole program of each server. It would be the same on several machines.
async fn serve(
    limiter: Limiter,
    listener: TcpListener,
    mut signals: Signals,
) -> Result<(), Report> {
    let rule = Rule::new("requests", ClientIp::peer());
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(layer);
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service)
        .with_graceful_shutdown(async move { signals.recv().await })
        .await?;
    // Gives back what this server holds in Redis.
    limiter.close().await?;
    Ok(())
}
