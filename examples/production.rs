//! A server for production: behind proxies, with limits in a file that is reloaded, buckets on Redis, metrics, and an end that
//! loses nothing.
//!
//! ```sh
//! redis-server &
//! cargo run --example production --all-features -- --proxies 127.0.0.1
//! curl -i -H 'x-forwarded-for: 203.0.113.7' http://127.0.0.1:3000/
//! curl http://127.0.0.1:3001/metrics
//! ```

#[path = "observability/exporter.rs"]
mod exporter;
#[path = "shared/failure.rs"]
mod failure;
#[path = "shared/shutdown.rs"]
mod shutdown;

use std::{error::Error, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::{Router, routing::get};
use clap::Parser;
use http::Method;
use tokio::net::TcpListener;
use tollgate::{
    ClientIp, Limiter, Limits, RateLimitLayer, RedisBackend, Rule,
    backend::{DenyCache, FailurePolicy},
    key::{Proxies, ProxyHeader},
    reload::Reloader,
    rule::methods,
};

use self::{failure::Failure, shutdown::Signals};

#[derive(Debug, Parser)]
struct Args {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// The address for Prometheus, which belongs in a private network.
    #[arg(long, default_value = "127.0.0.1:3001")]
    metrics: SocketAddr,
    #[arg(long, default_value = "redis://127.0.0.1:6379")]
    redis: String,
    /// The number of processes that share the Redis.
    #[arg(long, default_value_t = 1)]
    processes: u32,
    /// The limits `requests` and `writes`.
    #[arg(long, default_value = "examples/config/production.yml")]
    limits: PathBuf,
    /// The addresses and ranges of the proxies, with commas.
    #[arg(long, value_delimiter = ',')]
    proxies: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let exporter = exporter::install()?;
    let recipe = Limits::builder().defaults_file(&args.limits);
    let limiter = limiter(&args, recipe.build()?)?;
    let app = app(&limiter, &args.proxies)?;

    let listener = TcpListener::bind(args.listen).await?;
    let metrics = TcpListener::bind(args.metrics).await?;
    let mut signals = Signals::listen()?;
    println!("listening on http://{}", listener.local_addr()?);
    println!("metrics on http://{}/metrics", metrics.local_addr()?);
    let reloader = Reloader::new(limiter.clone(), recipe).every(Duration::from_secs(10));
    tokio::spawn(reloader.on_hangup().run());
    tokio::spawn(exporter::upkeep(exporter.clone()));
    let scrapes = exporter::router(exporter, limiter.clone());
    tokio::spawn(async { axum::serve(metrics, scrapes).await });

    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service)
        .with_graceful_shutdown(async move { signals.recv().await })
        .await?;
    // Waits for refunds under way, and gives back permits and leased tokens.
    limiter.close().await?;
    Ok(())
}

/// Returns at once, so that the server listens. Until Redis answers, the process decides with its share.
fn limiter(args: &Args, limits: Limits) -> Result<Limiter, Box<dyn Error>> {
    let redis = Arc::new(RedisBackend::new(&*args.redis)?);
    let connecting = Arc::clone(&redis);
    tokio::spawn(async move {
        if let Err(error) = connecting.connected(Duration::from_secs(5)).await {
            tracing::error!(%error, "deciding without Redis");
        }
    });
    // Clients over a limit are denied without Redis.
    let backend = FailurePolicy::new(DenyCache::new(redis)).fleet(args.processes);
    Ok(Limiter::try_new(limits, backend)?)
}

fn app(limiter: &Limiter, proxies: &[String]) -> Result<Router, Box<dyn Error>> {
    let client = || -> Result<ClientIp, Box<dyn Error>> {
        if proxies.is_empty() {
            return Ok(ClientIp::peer());
        }
        let proxies = Proxies::trusted(proxies, ProxyHeader::XForwardedFor)?;
        Ok(ClientIp::behind(proxies))
    };
    let writes = methods([Method::POST, Method::PUT, Method::PATCH, Method::DELETE]);
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("requests", client()?))
        .rule(Rule::new("writes", client()?).only_if(writes));
    Ok(Router::new()
        .route(
            "/",
            get(|| async { "hello\n" }).post(|| async { "written\n" }),
        )
        .layer(layer)
        // Outside of the layer: who watches the server is not limited.
        .route("/healthz", get(|| async { "ok\n" })))
}
