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

use std::{fs, net::SocketAddr, path::PathBuf};

use axum::{Router, body::Body, response::Response};
use http::{Request, StatusCode, request::Builder};
use tollgate::{Limiter, Limits, MemoryBackend, clock::ManualClock, limit::LimitsError};
use tower::ServiceExt;

/// Readers copy what is tested.
#[test]
fn pages_show_the_code_that_runs_here() {
    let files = |folder: &str| {
        let files = fs::read_dir(folder).unwrap();
        let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        assert!(files.len() > 15, "{folder}");
        files.into_iter()
    };
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let pages: Vec<_> = files("docs/recipes").map(|page| read(&page)).collect();
    for path in files("tests/http/recipes/pages") {
        let code = format!("```rust\n{}```\n", read(&path));
        let is_shown = pages.iter().any(|page| page.contains(&code));
        assert!(is_shown, "no page shows {}", path.display());
    }
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
