//! A server with limits of several kinds, and clients with made-up requests.

use std::{convert::Infallible, env, error::Error, sync::Arc, time::Duration};

use axum::{Router, body::Body, http::Request, routing::get};
use tokio::time;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, RedisBackend, Rule,
    backend::FailurePolicy,
    key::HeaderId,
    limit::{LimitName, LimitsError},
    rule::paths,
};
use tower::ServiceExt;

/// Creates a limiter with buckets in memory, or in the Redis that `REDIS_URL` names. Until that answers, the process decides.
pub(crate) fn limiter() -> Result<Limiter, Box<dyn Error>> {
    let limits = limits()?;
    let Ok(url) = env::var("REDIS_URL") else {
        return Ok(Limiter::new(limits, MemoryBackend::new()));
    };
    // The deadline is longer than the default, for busy machines.
    let deadline = env::var("DEADLINE_MS").unwrap_or_else(|_| "200".to_owned());
    let deadline = Duration::from_millis(deadline.parse()?);
    let redis = RedisBackend::builder(&*url).timeout(2 * deadline).build()?;
    let redis = Arc::new(redis);
    let connecting = Arc::clone(&redis);
    tokio::spawn(async move {
        if let Err(error) = connecting.connected(Duration::from_secs(5)).await {
            tracing::error!(%error, "deciding without Redis");
        }
    });
    Ok(Limiter::new(
        limits,
        FailurePolicy::new(redis).deadline(deadline),
    ))
}

/// Ids are not redacted here. The page redacts them until an operator asks for them.
fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit("requests", Limit::per_minute(60).burst(30))
        .override_for("requests", "partner", Limit::per_second(50))
        .override_for("requests", "spammer", Limit::BLOCKED)
        .limit("exports", Limit::per_day(5))
        .limit(
            LimitName::from("searches").shadow(true),
            Limit::window(10, Duration::from_secs(60)),
        )
        .build()
}

pub(crate) fn app(limiter: Limiter) -> Router {
    // This is only safe if an authenticating proxy sets the header, and removes the client's own.
    let account = || HeaderId::new("x-account").shown();
    let layer = RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("requests", account()))
        .rule(Rule::new("searches", account()).only_if(paths(["/search"])))
        .rule(Rule::new("exports", account()).only_if(paths(["/export"])));
    Router::new()
        .route("/", get(|| async { "hello\n" }))
        .route("/search", get(|| async { "found\n" }))
        .route("/export", get(|| async { "exported\n" }))
        .layer(layer)
}

/// Simulated clients for the page, with the number of requests that each makes in ten seconds.
const CLIENTS: [(&str, &str, u64); 7] = [
    ("/", "alice", 8),
    ("/", "bob", 10),
    ("/", "crawler-7", 37),
    ("/", "partner", 90),
    ("/", "spammer", 11),
    ("/search", "bob", 4),
    ("/export", "nightly-job", 1),
];

/// Makes requests as these clients, for as long as the process runs.
pub(crate) async fn imitate_clients(app: Router) -> Infallible {
    let mut ticks = time::interval(Duration::from_millis(100));
    let mut tick = 0;
    loop {
        ticks.tick().await;
        // Every 45 seconds, all clients send twice as many requests for 15 seconds.
        let times = if tick / 150 % 3 == 0 { 2 } else { 1 };
        for (path, id, in_ten_seconds) in CLIENTS {
            let due = (tick + 1) * in_ten_seconds / 100 - tick * in_ten_seconds / 100;
            for _ in 0..due * times {
                let request = Request::get(path).header("x-account", id);
                let request = request.body(Body::empty()).expect("path and id are valid");
                let Ok(_) = app.clone().oneshot(request).await;
            }
        }
        tick += 1;
    }
}
