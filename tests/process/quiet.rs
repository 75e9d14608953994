//! Layers that add one thing, or nothing, to an allowed request. A layer that adds nothing takes a shorter way, which a
//! process takes only if nobody listens to its events, so that each test has a process of its own.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tollgate::{
    ClientIp, Limit, Limiter, RateLimitLayer, Rule, Transaction, clock::ManualClock,
    layer::Assessment, response::Headers,
};
use tower::{Layer, ServiceExt, service_fn};

use crate::{
    alone::alone,
    support::{from_ip, limiter_of},
};

/// The additions of a layer to an allowed request and its response.
#[derive(Debug, Default, PartialEq, Eq)]
struct Added {
    fields: bool,
    to_request: bool,
    to_response: bool,
    settled: bool,
}

fn rule() -> Rule {
    Rule::new("requests", ClientIp::peer())
}

/// A layer that adds nothing.
fn plain(limiter: &Limiter) -> RateLimitLayer {
    let layer = RateLimitLayer::with_limiter(limiter.clone());
    layer.headers(Headers::None).extensions(false)
}

async fn added_by(layer: RateLimitLayer, limiter: &Limiter) -> Added {
    let to_request = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&to_request);
    let handler = service_fn(move |request: Request<Full<Bytes>>| {
        let is_there = request.extensions().get::<Assessment>().is_some();
        seen.store(is_there, Ordering::Relaxed);
        async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) }
    });
    let response = layer.layer(handler).oneshot(from_ip("203.0.113.7")).await;
    let (head, body) = response.unwrap().into_parts();
    assert_eq!(head.status, StatusCode::OK);
    body.collect().await.unwrap();
    let probe = Transaction::new("requests", "203.0.113.7").cost(0);
    let left = limiter.check(&probe).await.unwrap().remaining();
    Added {
        fields: head.headers.contains_key("ratelimit"),
        to_request: to_request.load(Ordering::Relaxed),
        to_response: head.extensions.get::<Assessment>().is_some(),
        settled: left == Some(5),
    }
}

#[tokio::test]
async fn layer_adds_what_it_is_told_and_nothing_else() {
    if !alone("quiet::layer_adds_what_it_is_told_and_nothing_else") {
        return;
    }
    let limiter = || limiter_of(&ManualClock::default(), Limit::per_minute(5));
    let added = async |layer: fn(RateLimitLayer) -> RateLimitLayer| {
        let limiter = limiter();
        let layer = layer(plain(&limiter));
        added_by(layer, &limiter).await
    };
    let nothing = Added::default();
    assert_eq!(added(|layer| layer.rule(rule())).await, nothing);
    let fields = Added {
        fields: true,
        ..Added::default()
    };
    let layer = |layer: RateLimitLayer| layer.rule(rule()).headers(Headers::Draft11);
    assert_eq!(added(layer).await, fields);
    let to_request = Added {
        to_request: true,
        ..Added::default()
    };
    let layer = |layer: RateLimitLayer| layer.rule(rule()).extensions(true);
    assert_eq!(added(layer).await, to_request);
    let to_response = Added {
        to_response: true,
        ..Added::default()
    };
    let layer = |layer: RateLimitLayer| layer.rule(rule()).response_extension(true);
    assert_eq!(added(layer).await, to_response);
    let settled = Added {
        settled: true,
        ..Added::default()
    };
    let layer = |layer: RateLimitLayer| layer.rule(rule().settle_by(|_| 0));
    assert_eq!(added(layer).await, settled);
}

#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn layer_that_adds_nothing_lets_requests_wait_in_line() {
    if !alone("quiet::layer_that_adds_nothing_lets_requests_wait_in_line") {
        return;
    }
    let limit = Limit::per_second(1).max_wait(std::time::Duration::from_secs(2));
    let limiter = limiter_of(&ManualClock::default(), limit);
    let limiter = limiter.with_clock(tollgate::clock::TokioClock::default());
    let layer = plain(&limiter).rule(rule());
    let mut waited = Vec::new();
    for _ in 0..4 {
        let began = tokio::time::Instant::now();
        let response = layer
            .layer(crate::support::Hello)
            .oneshot(from_ip("203.0.113.7"))
            .await;
        waited.push((
            response.unwrap().status().as_u16(),
            began.elapsed().as_secs(),
        ));
    }
    assert_eq!(waited, [(200, 0), (200, 1), (200, 1), (200, 1)]);
}
