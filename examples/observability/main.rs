//! An observable server: metrics for Prometheus, a dashboard for Grafana, and traces.
//!
//! ```sh
//! cargo run --example observability --all-features &
//! curl -H 'x-account: alice' http://127.0.0.1:3000/
//! curl http://127.0.0.1:3001/metrics
//! ```
//!
//! With a Redis, `REDIS_URL=redis://127.0.0.1:6379`, you can also watch the store, its circuit breaker and the
//! fallback: kill the server and start it again. Environment variables change the rest:
//!
//! | | |
//! |---|---|
//! | `ADDR` | the server's address, by default `127.0.0.1:3000` |
//! | `METRICS_ADDR` | the address for metrics, by default `127.0.0.1:3001`; keep it in a private network |
//! | `REDIS_URL` | keeps the buckets in Redis |
//! | `DEADLINE_MS` | how long Redis may take to answer, in milliseconds, by default 200 |
//! | `OVERRIDES` | a file of overrides, in YAML or JSON, which is reloaded every 30 seconds and on SIGHUP |
//! | `LOG` | the log level: `debug` shows denials, `trace` also shows allowed requests |
//!
//! Import `dashboard.json` into Grafana, and choose the Prometheus that scrapes `METRICS_ADDR`. `docs/operating.md`
//! explains the metrics and lists alerts.

mod exporter;
#[path = "../shared/failure.rs"]
mod failure;
#[path = "../shared/listen.rs"]
mod listen;
#[path = "../shared/shutdown.rs"]
mod shutdown;

use std::{env, error::Error, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, routing::get};
use http::Request;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, RedisBackend, Rule,
    backend::{DenyCache, FailurePolicy},
    key::HeaderId,
    limit::{LimitError, LimitName, LimitsBuilder},
    reload::Reloader,
    rule::paths,
    tiers::Tier,
    transaction::OnFailure,
};
use tower_http::trace::TraceLayer;
use tracing::{Span, field::Empty, info_span, level_filters::LevelFilter};

use self::{failure::Failure, listen::listen, shutdown::Signals};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let level: LevelFilter = variable("LOG", "info").parse()?;
    let log = tracing_subscriber::fmt().with_writer(io::stderr);
    log.with_max_level(level).init();
    // Before the first request, which registers series.
    let exporter = exporter::install()?;

    let recipe = recipe()?;
    let limiter = limiter(&recipe)?;
    let app = app(limiter.clone())?;
    let listener = listen("ADDR", "127.0.0.1:3000").await?;
    let mut signals = Signals::listen()?;
    println!("listening on http://{}", listener.local_addr()?);
    let metrics = listen("METRICS_ADDR", "127.0.0.1:3001").await?;
    println!("metrics on http://{}/metrics", metrics.local_addr()?);

    tokio::spawn(Reloader::new(limiter.clone(), recipe).on_hangup().run());
    tokio::spawn(exporter::upkeep(exporter.clone()));
    let scrapes = exporter::router(exporter, limiter.clone());
    tokio::spawn(async { axum::serve(metrics, scrapes).await });
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service)
        .with_graceful_shutdown(async move { signals.recv().await })
        .await?;
    limiter.close().await?;
    Ok(())
}

/// One limit of each kind. An override lets one account do more, and another one blocks an account.
fn recipe() -> Result<LimitsBuilder, LimitError> {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let tiers = [
        Tier::new(5, minutes(1)),
        Tier::new(1, minutes(15)).active(minutes(15)),
    ];
    let recipe = Limits::builder()
        .redact_ids(true)
        .limit("requests", Limit::per_hour(20))
        .override_for("requests", "partner", Limit::per_hour(100))
        .override_for("requests", "spammer", Limit::BLOCKED)
        // In shadow mode, to watch the limit before it is enforced.
        .limit(LimitName::from("searches").shadow(true), Limit::per_hour(3))
        // Exports are refused while they cannot be counted.
        .limit(
            LimitName::from("exports").on_failure(OnFailure::Refuse),
            Limit::tiers(tiers)?,
        );
    Ok(match env::var_os("OVERRIDES") {
        Some(path) => recipe.overrides_file(path),
        None => recipe,
    })
}

/// Creates a limiter with buckets in memory, or in the Redis of `REDIS_URL`. Until that answers, the process decides.
fn limiter(recipe: &LimitsBuilder) -> Result<Limiter, Box<dyn Error>> {
    let limits = recipe.build()?;
    let Ok(url) = env::var("REDIS_URL") else {
        return Ok(Limiter::new(limits, MemoryBackend::new()));
    };
    // The deadline is longer than the default, for busy machines.
    let deadline = Duration::from_millis(variable("DEADLINE_MS", "200").parse()?);
    let redis = RedisBackend::builder(&*url).timeout(2 * deadline).build()?;
    let redis = Arc::new(redis);
    let connecting = Arc::clone(&redis);
    tokio::spawn(async move {
        if let Err(error) = connecting.connected(Duration::from_secs(5)).await {
            tracing::error!(%error, "deciding without Redis");
        }
    });
    let backend = FailurePolicy::new(DenyCache::new(redis)).deadline(deadline);
    Ok(Limiter::new(limits, backend))
}

fn app(limiter: Limiter) -> Result<Router, Box<dyn Error>> {
    // The authenticating proxy must set it, and remove the client's own.
    let account = || HeaderId::new("x-account");
    let limits = RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("requests", account()))
        .rule(Rule::new("searches", account()).only_if(paths(["/search"])))
        .rule(Rule::new("exports", account()).only_if(paths(["/export"])));
    // Writes no line for each 503 while Redis is down. The layer logs the outage once.
    let trace = TraceLayer::new_for_http()
        .make_span_with(span)
        .on_failure(());
    Ok(Router::new()
        .route("/", get(|| async { "hello\n" }))
        .route("/search", get(|| async { "found\n" }))
        .route("/export", get(|| async { "exported\n" }))
        .layer(limits)
        .layer(trace))
}

/// Creates a request's span, with fields for the layer's decision.
fn span<B>(request: &Request<B>) -> Span {
    let (method, path) = (request.method(), request.uri().path());
    info_span!(
        "request",
        %method,
        path,
        rate_limiting.policy = Empty,
        rate_limiting.result = Empty,
        rate_limiting.refusal = Empty,
        rate_limiting.refusal_id = Empty,
    )
}

fn variable(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.into())
}
