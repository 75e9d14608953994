include!("pages/migrating.rs");

use http::StatusCode;
use tollgate::{Limiter, Limits, MemoryBackend, clock::ManualClock};

use crate::support::send;

/// How many requests at once a limit admits.
async fn at_once(limiter: &Limiter) -> usize {
    let limit = limiter.limit("requests").unwrap();
    let mut admitted = 0;
    while limit.spend("client").await.unwrap().allowed() {
        admitted += 1;
    }
    admitted
}

/// How many requests a limit admits at once, and again after a while.
async fn admits(limit: Limit, wait: Duration) -> (usize, usize) {
    let clock = ManualClock::default();
    let limits = Limits::builder().limit("requests", limit).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
    let first = at_once(&limiter).await;
    clock.advance(wait);
    (first, at_once(&limiter).await)
}

#[tokio::test]
async fn limits_admit_what_the_others_do() {
    let second = Duration::from_secs(1);
    assert_eq!(admits(governor(), second).await, (10, 10));
    assert_eq!(admits(nginx(), second).await, (21, 10));
    let window = Duration::from_secs(15 * 60);
    let express = express_rate_limit();
    assert_eq!(admits(express.clone(), window - second).await, (100, 0));
    assert_eq!(admits(express, window).await, (100, 100));
}

/// The waits of requests that come at once, until one is refused.
async fn waits(limit: Limit) -> Vec<Duration> {
    let limits = Limits::builder().limit("requests", limit).build().unwrap();
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock);
    let (limit, mut waits) = (limiter.limit("requests").unwrap(), Vec::new());
    loop {
        let decision = limit.spend("client").await.unwrap();
        if !decision.allowed() {
            return waits;
        }
        waits.push(decision.delay());
    }
}

#[tokio::test]
async fn delays_are_those_of_nginx() {
    let step = Duration::from_millis(100);
    // `rate=10r/s`, and `burst=20` with each `delay`.
    for delay in 0..=20_u32 {
        let max_wait = (20 - delay) * step;
        let limit = Limit::per_second(10).burst(delay + 1);
        let limit = match max_wait.is_zero() {
            true => limit,
            false => limit.max_wait(max_wait),
        };
        let expected: Vec<_> = (0..=20_u32)
            .map(|i| i.saturating_sub(delay) * step)
            .collect();
        assert_eq!(waits(limit).await, expected, "delay={delay}");
    }
}

/// How many of ten requests pass, two from each address.
async fn passed(layer: &RateLimitLayer) -> usize {
    let mut passed = 0;
    for i in 0..10 {
        let response = send(layer, &format!("203.0.113.{}", i / 2)).await;
        passed += usize::from(response.status() == StatusCode::OK);
    }
    passed
}

#[tokio::test]
async fn layers_count_for_whom_the_others_do() {
    assert_eq!(passed(&tower_governor()).await, 10);
    assert_eq!(passed(&tower()).await, 5);
}
