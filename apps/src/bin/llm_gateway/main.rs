//! A gateway in front of a server that speaks the OpenAI-compatible protocol, with streaming. It limits each API key.
//!
//! ```sh
//! cargo run -p tollgate-apps --bin llm_gateway
//! curl -i http://127.0.0.1:3000/v1/chat/completions -H 'authorization: Bearer sk-demo-alice' \
//!     --json '{"model": "parrot", "messages": [{"role": "user", "content": "who is a good bird"}]}'
//! curl -iN http://127.0.0.1:3000/v1/chat/completions -H 'authorization: Bearer sk-demo-bob' \
//!     --json '{"model": "great-parrot", "stream": true, "messages": [{"role": "user", "content": "who is a good bird"}]}'
//! ```
//!
//! Without arguments, buckets are in memory, and the server behind the gateway is a parrot. Several gateways share one Redis:
//!
//! ```sh
//! UPSTREAM_KEY=sk-real cargo run -p tollgate-apps --bin llm_gateway -- --upstream http://127.0.0.1:8000 \
//!     --redis redis://127.0.0.1:6379 --gateways 2 --limits limits.yml --keys gateway.yml
//! ```
//!
//! Each key has requests per minute, tokens per minute, calls at once and tokens per month, by its plan and by the class of
//! the model. `--overrides` names a file with limits of individual keys. The files are read again when they change.
//!
//! Tokens are **reserved** before a call: those of the prompt, estimated, and the most that the answer may take. At the end
//! they are **settled**:
//!
//! | what the server has sent | the call costs |
//! |---|---|
//! | an answer or an event with `usage` | what that says, even if it is more than was reserved |
//! | a part of a stream, or a whole one, without `usage` | the estimate of the prompt, and of the text that came; what cannot be read counts by its bytes |
//! | another answer without `usage`, or nothing before the client went away | all that was reserved |
//! | an error, or nothing at all | no tokens |
//!
//! A request stays charged to the requests per minute, however it ends.
//!
//! Clients without a valid key get a 401 before their body is read, and are not limited. Add a layer with a rate for each
//! address outside, as in the recipe for combined limits. TLS belongs in front of the gateway.

mod admission;
mod answer;
mod args;
mod call;
mod events;
#[path = "../../../../examples/shared/failure.rs"]
mod failure;
mod fields;
mod forward;
mod headers;
mod keys;
mod meter;
mod parrot;
mod plan_limits;
mod refusal;
#[path = "../../../../examples/shared/shutdown.rs"]
mod shutdown;
mod text;

use std::{env, io, sync::Arc, time::Duration};

use axum::{
    Router,
    middleware::from_fn_with_state,
    routing::{get, post},
};
use clap::Parser;
use tokio::{net::TcpListener, sync::oneshot, time};
use tollgate::{
    Limiter, Limits, MemoryBackend, RateLimitLayer, RedisBackend,
    backend::{DenyCache, FailurePolicy},
    reload::Reloader,
};

use self::{
    admission::Gateway, args::Args, failure::Failure, forward::Upstream, keys::LiveKeys,
    plan_limits::PlanLimits, shutdown::Signals,
};

/// The interval at which files are read.
const REREAD: Duration = Duration::from_secs(1);

/// The longest wait for Redis at startup.
const CONNECT: Duration = Duration::from_secs(10);

/// The longest that Redis may take for a decision. A model takes longer, so patience costs little.
const DECIDE: Duration = Duration::from_secs(2);

/// The longest that calls can delay a shutdown.
const GRACE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let args = Args::parse();
    let mut recipe = Limits::builder().defaults_file(&args.limits);
    if let Some(overrides) = &args.overrides {
        recipe = recipe.overrides_file(overrides);
    }
    let limits = recipe.build()?;
    let plans = PlanLimits::of(&limits)?;
    let keys = LiveKeys::read(&args.keys, plans)?;
    let limiter = match &args.redis {
        None => Limiter::try_new(limits, MemoryBackend::new())?,
        Some(url) => {
            let redis = RedisBackend::builder(url).timeout(DECIDE).build()?;
            redis.connected(CONNECT).await?;
            // While Redis does not answer, each gateway decides with its share.
            let backend = FailurePolicy::new(DenyCache::new(redis)).deadline(DECIDE);
            Limiter::try_new(limits, backend.fleet(args.gateways))?
        }
    };
    let upstream = match args.upstream {
        Some(url) => url,
        None => parrot::start().await?,
    };
    let upstream = Upstream::new(&upstream, env::var("UPSTREAM_KEY").ok().as_deref())?;
    let layers = keys.plans().layers(&limiter)?;
    let gateway = Gateway {
        keys: Arc::clone(&keys),
        limiter: limiter.clone(),
    };
    let app = app(gateway, upstream, layers);

    let listener = TcpListener::bind(&args.listen).await?;
    let signals = Signals::listen()?;
    tokio::spawn(Reloader::new(limiter.clone(), recipe).every(REREAD).run());
    tokio::spawn(keys.follow(REREAD));
    println!("listening on http://{}", listener.local_addr()?);
    serve(listener, app, signals).await?;
    // Gives the permits back at once, before they expire.
    limiter.close().await?;
    Ok(())
}

fn app(gateway: Gateway, upstream: Upstream, layers: [RateLimitLayer; 2]) -> Router {
    let gateway = Arc::new(gateway);
    let [outer, inner] = layers;
    let calls = post(forward::forward)
        .with_state(Arc::new(upstream))
        .route_layer(inner)
        .route_layer(outer)
        // The layer added last is the outermost: it finds the key and the model, which determine the limits.
        .route_layer(from_fn_with_state(Arc::clone(&gateway), admission::admit));
    Router::new()
        .route("/v1/chat/completions", calls.clone())
        .route("/v1/completions", calls.clone())
        .route("/v1/embeddings", calls)
        .route("/v1/models", get(admission::models).with_state(gateway))
        .fallback(refusal::unknown_path)
        .method_not_allowed_fallback(refusal::wrong_method)
}

/// Serves until a signal arrives, then finishes the calls in flight.
async fn serve(listener: TcpListener, app: Router, mut signals: Signals) -> io::Result<()> {
    let (stop, stopping) = oneshot::channel();
    let signalled = async move {
        signals.recv().await;
        let _ = stop.send(());
    };
    let overdue = async {
        let _ = stopping.await;
        time::sleep(GRACE).await;
    };
    tokio::select! {
        served = axum::serve(listener, app).with_graceful_shutdown(signalled) => served,
        () = overdue => Ok(()),
    }
}
