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

use std::{
    env,
    error::Error,
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use tokio::net::TcpListener;

const USAGE: &str = "usage: registry CONFIG.yml [--listen 127.0.0.1:5000]";

/// The longest wait for Redis at startup.
const CONNECT: Duration = Duration::from_secs(10);

/// The longest that Redis may take for a decision. There are no decisions without Redis, so a slow answer is better than an error.
const DECIDE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed, so ignore errors. The exit code still reports the failure.
            let _ = writeln!(io::stderr(), "registry: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let args = Args::parse(env::args().skip(1)).ok_or(USAGE)?;
    let mut router = app::router();
    if let Some(redis) = config::read(&args.config)? {
        let redis = redis.keys(app::key_form()?).timeout(DECIDE).build()?;
        let connected = redis.connected(CONNECT).await;
        connected.map_err(|error| format!("cannot connect to Redis: {error}"))?;
        router = router.layer(app::layer(redis)?);
    } else {
        tracing::warn!("no request is limited: redis.ratelimiter.enabled is not true");
    }
    let listener = TcpListener::bind(&args.listen)
        .await
        .map_err(|error| format!("cannot listen on `{}`: {error}", args.listen))?;
    println!("listening on http://{}", listener.local_addr()?);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await?;
    Ok(())
}

struct Args {
    config: PathBuf,
    listen: String,
}

impl Args {
    /// Parses the arguments that follow the program's name.
    fn parse(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let (mut config, mut listen) = (None, None);
        while let Some(arg) = args.next() {
            let before = match arg.as_str() {
                "--listen" => listen.replace(args.next()?),
                _ if arg.starts_with('-') => return None,
                _ => config.replace(arg),
            };
            if before.is_some() {
                return None;
            }
        }
        Some(Self {
            config: config?.into(),
            listen: listen.unwrap_or_else(|| "127.0.0.1:5000".into()),
        })
    }
}
