//! Slots in a line go to requests that can wait for them.

#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use http::StatusCode;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    backend::Backend,
    clock::TokioClock,
    key::{Everyone, HeaderId},
};
use tower::{Layer, ServiceExt};

use crate::support::{
    Hello, bucket, from_ip,
    store::{Fate, Store},
};

const MS: Duration = Duration::from_millis(1);

fn limiter(limit: Limit, backend: impl Backend) -> Limiter {
    let limits = Limits::builder()
        .limit("requests", limit)
        .limit("accounts", Limit::per_hour(10_000));
    Limiter::new(limits.build().unwrap(), backend).with_clock(TokioClock::default())
}

fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("requests", Everyone))
}

async fn status(layer: &RateLimitLayer) -> StatusCode {
    let sent = layer.layer(Hello).oneshot(from_ip("203.0.113.7"));
    sent.await.unwrap().status()
}

/// Lets clients send requests one after the other, and after a refusal in a while again. Returns how many passed.
async fn passed(layer: &RateLimitLayer, clients: u64, time: Duration) -> u32 {
    let (passed, end) = (Arc::new(AtomicU32::new(0)), Instant::now() + time);
    let mut all = JoinSet::new();
    for client in 0..clients {
        let (layer, passed) = (layer.clone(), Arc::clone(&passed));
        all.spawn(async move {
            // They do not return together.
            let mut pause = 70 + 10 * (client % 13);
            while Instant::now() < end {
                match status(&layer).await {
                    StatusCode::OK if Instant::now() < end => {
                        passed.fetch_add(1, Ordering::Relaxed);
                    }
                    StatusCode::OK => {}
                    _ => sleep(MS * u32::try_from(pause).unwrap()).await,
                }
                pause = 70 + (pause * 5 + client) % 130;
            }
        });
    }
    all.join_all().await;
    passed.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn full_waiting_room_leaves_no_slot_unused() {
    let limit = Limit::per_second(100).max_wait(Duration::from_secs(10));
    for is_late in [true, false] {
        let limiter = match is_late {
            true => limiter(limit.clone(), Store::new(Fate::Takes(MS))),
            false => limiter(limit.clone(), MemoryBackend::new()),
        };
        let layer = layer(&limiter).max_waiting(100);
        let passed = passed(&layer, 400, Duration::from_secs(8)).await;
        // The burst, and a hundred per second.
        assert!((880..=900).contains(&passed), "{is_late}: {passed}");
    }
}

#[tokio::test(start_paused = true)]
async fn layer_in_which_nobody_may_wait_passes_the_full_rate() {
    let limit = Limit::per_second(10)
        .burst(1)
        .max_wait(Duration::from_secs(2));
    for is_late in [true, false] {
        let limiter = match is_late {
            true => limiter(limit.clone(), Store::new(Fate::Takes(MS))),
            false => limiter(limit.clone(), MemoryBackend::new()),
        };
        let layer = layer(&limiter).max_waiting(0);
        let passed = passed(&layer, 100, Duration::from_secs(5)).await;
        assert!((45..=50).contains(&passed), "{is_late}: {passed}");
    }
}

/// How long until the bucket is full, and its line empty.
async fn taken(limiter: &Limiter) -> Duration {
    bucket(limiter, "requests", "everyone").await.reset_after()
}

#[tokio::test(start_paused = true)]
async fn request_without_an_id_takes_no_place_in_a_line() {
    let limit = Limit::per_second(10)
        .burst(2)
        .max_wait(Duration::from_secs(60));
    for is_late in [true, false] {
        let limiter = match is_late {
            true => limiter(limit.clone(), Store::new(Fate::Takes(MS))),
            false => limiter(limit.clone(), MemoryBackend::new()),
        };
        let layer = layer(&limiter).rule(Rule::new("accounts", HeaderId::new("x-account")));
        let mut all = JoinSet::new();
        for _ in 0..1000 {
            let layer = layer.clone();
            all.spawn(async move { status(&layer).await });
        }
        let answers = all.join_all().await;
        assert_eq!(answers, [StatusCode::BAD_REQUEST; 1000]);
        assert!(taken(&limiter).await <= 200 * MS, "as without a line");
        let mut honest = from_ip("203.0.113.7");
        let account = "12345678".parse().unwrap();
        honest.headers_mut().insert("x-account", account);
        let began = Instant::now();
        let answer = layer.layer(Hello).oneshot(honest).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(began.elapsed() <= 102 * MS, "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn request_that_leaves_while_it_is_decided_gives_its_seat_back() {
    let limit = Limit::per_second(10)
        .burst(1)
        .max_wait(Duration::from_secs(60));
    let limiter = limiter(limit, Store::new(Fate::Takes(MS)));
    let layer = layer(&limiter).max_waiting(1);
    assert_eq!(status(&layer).await, StatusCode::OK);
    for _ in 0..3 {
        let left = tokio::time::timeout(MS / 2, status(&layer)).await;
        assert!(left.is_err(), "the store has not answered");
        // Now it has, and was refunded.
        sleep(5 * MS).await;
    }
    let waits = tokio::time::timeout(20 * MS, status(&layer));
    assert!(waits.await.is_err(), "it has a seat");
}
