//! The check `layer-rebuilt`. It counts layers of the whole process, so that each test has a process of its own.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use tollgate::{ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule};
use tower::{Layer, ServiceExt};

use crate::{
    alone::alone,
    support::{Hello, Log, from_ip},
};

const LAYER_REBUILT: &str = "check=\"layer-rebuilt\"";

fn limiter() -> Limiter {
    let limits = Limits::builder().limit("requests", Limit::per_second(1000));
    Limiter::new(limits.build().unwrap(), MemoryBackend::new())
}

fn layer(limiter: Limiter) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter).rule(Rule::new("requests", ClientIp::peer()))
}

async fn send(layer: &RateLimitLayer) {
    let service = layer.layer(Hello);
    let response = service.oneshot(from_ip("10.0.0.1")).await.unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn layer_that_is_built_for_each_request_is_told_once() {
    if !alone("layer_rebuilt::layer_that_is_built_for_each_request_is_told_once") {
        return;
    }
    let (log, _guard) = Log::capture();
    for _ in 0..300 {
        // The response outlives the layer.
        let service = layer(limiter()).layer(Hello);
        let response = service.oneshot(from_ip("10.0.0.1")).await.unwrap();
        assert_eq!(response.status(), 200);
    }
    assert_eq!(log.count(LAYER_REBUILT), 1, "{log:?}");
}

#[tokio::test]
async fn layers_of_one_limiter_and_layers_that_last_are_ordinary() {
    if !alone("layer_rebuilt::layers_of_one_limiter_and_layers_that_last_are_ordinary") {
        return;
    }
    let (log, _guard) = Log::capture();
    let shared = limiter();
    for _ in 0..300 {
        send(&layer(shared.clone())).await;
    }
    for i in 0..300 {
        let layer = layer(limiter());
        for _ in 0..1 + i % 2 {
            send(&layer).await;
        }
    }
    assert_eq!(log.count("check="), 0, "{log:?}");
}
