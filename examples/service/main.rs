//! A small HTTP service around [`tollgate::Limiter`], for callers in any language.
//!
//! ```text
//! cargo run --release --example service --all-features -- \
//!     --listen 127.0.0.1:8080 --defaults defaults.yml --overrides overrides.yml
//!
//! curl http://127.0.0.1:8080/v1/decide --data '{"op": "spend",
//!     "transactions": [{"limit": "NewOrdersPerAccount", "id": "12345678"}]}'
//! ```
//!
//! `POST /v1/decide` decides, `GET /v1/limits` shows the limits in force, and `GET /healthz` reports that the service
//! is up. The files are reloaded when they change, or at once on SIGHUP. With `--redis redis://127.0.0.1:6379`,
//! several services share their buckets. With `--manual-clock`, each request brings its own time in `now_us`, so that
//! a caller can simulate hours in a moment.

mod answer;
mod args;
mod limits;
mod receipts;
mod refusal;
mod request;
mod routes;
#[path = "../shared/shutdown.rs"]
mod shutdown;

use std::{
    error::Error as StdError,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use axum::Router;
use clap::Parser;
use tokio::{net::TcpListener, sync::oneshot, time};
use tollgate::{
    Limiter, Limits, MemoryBackend, RedisBackend, backend::FailurePolicy, reload::Reloader,
};

use self::{args::Args, shutdown::Signals};

/// The longest that a client can delay a shutdown.
const GRACE: Duration = Duration::from_secs(10);

/// The interval at which limit files are read.
const REREAD: Duration = Duration::from_secs(10);

/// The longest wait for Redis at startup.
const CONNECT: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    match run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed, so ignore errors. The exit code still reports the failure.
            let _ = writeln!(io::stderr(), "service: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: Args) -> Result<(), Box<dyn StdError>> {
    let mut recipe = Limits::builder().defaults_file(&args.defaults);
    if let Some(overrides) = &args.overrides {
        recipe = recipe.overrides_file(overrides);
    }
    let limits = recipe.build()?;
    let redis = match &args.redis {
        Some(url) => Some(Arc::new(connect(url, args.deadline()).await?)),
        None => None,
    };
    let limiter = match &redis {
        Some(redis) => {
            let policy = FailurePolicy::new(Arc::clone(redis)).deadline(args.deadline());
            Limiter::try_new(limits, policy.on_failure(args.on_failure()))?
        }
        None => Limiter::try_new(limits, MemoryBackend::new())?,
    };
    let listener = TcpListener::bind(&args.listen)
        .await
        .map_err(|error| format!("cannot listen on `{}`: {error}", args.listen))?;
    // Signals must be handled before the line that reports readiness.
    let signals = Signals::listen()?;
    let reloader = Reloader::new(limiter.clone(), recipe).every(REREAD);
    tokio::spawn(reloader.on_hangup().run());
    writeln!(
        io::stdout(),
        "listening on http://{}",
        listener.local_addr()?
    )?;
    io::stdout().flush()?;
    let router = routes::router(limiter.clone(), args.clock(), redis);
    serve(listener, router, signals).await?;
    // If Redis does not answer, what this process holds there expires.
    if let Err(error) = limiter.close().await {
        tracing::warn!(%error, "could not give everything back");
    }
    Ok(())
}

async fn connect(url: &str, deadline: Duration) -> Result<RedisBackend, Box<dyn StdError>> {
    let redis = RedisBackend::builder(url).timeout(deadline).build()?;
    let connected = redis.connected(CONNECT).await;
    connected.map_err(|error| format!("cannot connect to Redis within {CONNECT:?}: {error}"))?;
    Ok(redis)
}

/// Serves until a signal arrives, then finishes the requests in flight.
async fn serve(listener: TcpListener, router: Router, mut signals: Signals) -> io::Result<()> {
    let (stop, stopping) = oneshot::channel();
    let signalled = async move {
        signals.recv().await;
        tracing::info!("shutting down: finishing what is in flight");
        let _ = stop.send(());
    };
    let overdue = async {
        let _ = stopping.await;
        time::sleep(GRACE).await;
    };
    tokio::select! {
        served = axum::serve(listener, router).with_graceful_shutdown(signalled) => served,
        () = overdue => {
            tracing::warn!("gave up on requests that were not complete {GRACE:?} later");
            Ok(())
        }
    }
}
