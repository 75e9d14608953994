//! The recipes of `docs/recipes`: the code of each page runs here, and does what the page promises.

#![cfg(feature = "axum")]

mod api_keys;
mod behind_proxies;
#[cfg(feature = "pace")]
mod calling_apis;
mod combined_limits;
mod concurrency;
mod graphql;
#[cfg(feature = "tonic")]
mod grpc_methods;
mod language_models;
mod logins;
mod migrating;
#[cfg(unix)]
mod nginx;
mod plans;
mod routes;
mod shadow_mode;
mod testing;
mod usage;
mod waiting;
mod webhooks;
mod websockets;

use std::net::SocketAddr;

use axum::{Router, body::Body, response::Response};
use http::{Request, StatusCode, request::Builder};
use tollgate::{Limiter, Limits, MemoryBackend, clock::ManualClock, limit::LimitsError};
use tower::ServiceExt;

/// Fails unless a page shows this code, so that readers copy what is tested.
#[track_caller]
fn expect_shown(page: &str, code: &str) {
    let shown = page.contains(&format!("```rust\n{code}```\n"));
    assert!(shown, "the page does not show the code of its test");
}

/// A limiter whose clock stands still.
fn limiter(limits: Result<Limits, LimitsError>) -> (Limiter, ManualClock) {
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits.unwrap(), MemoryBackend::new()).with_clock(clock.clone());
    (limiter, clock)
}

fn from_ip(ip: &str) -> Builder {
    let peer = SocketAddr::new(ip.parse().unwrap(), 49_152);
    Request::builder().extension(peer)
}

async fn send(app: &Router, request: Request<Body>) -> Response {
    app.clone().oneshot(request).await.unwrap()
}

async fn status(app: &Router, request: Builder) -> StatusCode {
    send(app, request.body(Body::empty()).unwrap())
        .await
        .status()
}

/// How many of so many requests get each of these statuses.
async fn count<const N: usize>(
    app: &Router,
    requests: usize,
    request: impl Fn() -> Request<Body>,
    of: [u16; N],
) -> [usize; N] {
    let mut counts = [0; N];
    for _ in 0..requests {
        let status = send(app, request()).await.status();
        let place = of.iter().position(|of| *of == status);
        counts[place.unwrap_or_else(|| panic!("{status}"))] += 1;
    }
    counts
}
