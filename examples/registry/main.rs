//! A container registry with GitLab's rate limiter: 60 requests per minute for each client, with bursts of 100,
//! counted in Redis for all registries together.
//!
//! ```sh
//! redis-server &
//! cargo run --example registry --features redis -- examples/config/registry.yml
//! for i in $(seq 101); do curl -s -o /dev/null -w '%{http_code} ' http://127.0.0.1:5000/v2/; done
//! curl -i http://127.0.0.1:5000/v2/
//! redis-cli keys '*'
//! ```
//!
//! Requests are limited only if the file contains `redis.ratelimiter.enabled: true`. The client is found by the rule
//! of the registry, `Proxies::registry`: the second entry of `X-Forwarded-For`, or `X-Real-IP`, or the peer.

mod app;
mod config;
#[path = "../shared/shutdown.rs"]
mod shutdown;

use std::{
    error::Error,
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::Parser;
use tokio::net::TcpListener;
use tollgate::backend::FailurePolicy;

use self::shutdown::Signals;

/// The longest wait for Redis at startup.
const CONNECT: Duration = Duration::from_secs(10);

/// The longest that Redis may take for a decision.
const DECIDE: Duration = Duration::from_secs(2);

#[derive(Debug, Parser)]
struct Args {
    /// The file of the registry's configuration.
    config: PathBuf,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:5000")]
    listen: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    match run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed, so ignore errors. The exit code still reports the failure.
            let _ = writeln!(io::stderr(), "registry: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let mut router = app::router();
    let mut limiter = None;
    if let Some(redis) = config::read(&args.config)? {
        let redis = redis.keys(app::key_form()?).timeout(DECIDE).build()?;
        let connected = redis.connected(CONNECT).await;
        connected.map_err(|error| format!("cannot connect to Redis: {error}"))?;
        // While Redis does not answer, each registry decides alone.
        let policy = FailurePolicy::new(redis).deadline(DECIDE);
        let limiter = limiter.insert(app::limiter(policy)?);
        router = router.layer(app::layer(limiter.clone())?);
    } else {
        tracing::warn!("no request is limited: redis.ratelimiter.enabled is not true");
    }
    let listener = TcpListener::bind(&args.listen)
        .await
        .map_err(|error| format!("cannot listen on `{}`: {error}", args.listen))?;
    let mut signals = Signals::listen()?;
    println!("listening on http://{}", listener.local_addr()?);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service)
        .with_graceful_shutdown(async move { signals.recv().await })
        .await?;
    if let Some(limiter) = limiter {
        limiter.close().await?;
    }
    Ok(())
}
