//! The bugs that other rate limiters are known for, each as a test that it is not one of ours.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

use http::StatusCode;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    clock::ManualClock, key::Everyone,
};

use crate::support::{layer, limiter, limiter_of, send};

async fn passed_at_once(limiter: &Limiter) -> usize {
    let one = Transaction::new("requests", "a");
    let mut passed = 0;
    while limiter.spend(&one).await.unwrap().allowed() {
        passed += 1;
    }
    passed
}

#[tokio::test]
async fn idling_never_saves_up_more_than_the_burst() {
    for (burst, idle_us) in [
        (10, 999_999),
        (10, 1_000_000),
        (10, 1_000_001),
        (5, 86_400_000_000),
    ] {
        let clock = ManualClock::default();
        let limiter = limiter_of(&clock, Limit::per_second(10).burst(burst));
        assert_eq!(passed_at_once(&limiter).await, burst as usize);
        clock.advance(Duration::from_micros(idle_us));
        let refilled = (idle_us / 100_000).min(u64::from(burst));
        assert_eq!(
            passed_at_once(&limiter).await as u64,
            refilled,
            "{burst} after {idle_us} us"
        );
    }
}

#[tokio::test]
async fn six_thousand_per_second_really_limits() {
    let clock = ManualClock::default();
    let limiter = limiter_of(&clock, Limit::per_second(6000).burst(1));
    let mut passed = 0;
    for _ in 0..100_000 {
        passed += u32::from(
            limiter
                .spend(&Transaction::new("requests", "a"))
                .await
                .unwrap()
                .allowed(),
        );
        clock.advance(Duration::from_micros(1));
    }
    assert_eq!(
        passed, 599,
        "one each 167 us, the first whole microsecond after 166 2/3"
    );
}

#[tokio::test]
async fn a_fast_rate_keeps_its_fractions() {
    let clock = ManualClock::default();
    let limiter = limiter_of(&clock, Limit::per_second(700_000).burst(10));
    let mut passed = 0;
    for _ in 0..100_000 {
        passed += passed_at_once(&limiter).await;
        clock.advance(Duration::from_micros(1));
    }
    assert_eq!(
        passed,
        10 + 69_999,
        "0.7 per microsecond, not 1 and not 0.5"
    );
}

#[tokio::test]
async fn retry_after_of_200_milliseconds_is_1() {
    let layer = layer(&limiter_of(
        &ManualClock::default(),
        Limit::per_second(5).burst(1),
    ));
    send(&layer, "203.0.113.7").await;
    let denied = send(&layer, "203.0.113.7").await;
    assert_eq!(denied.headers().get("retry-after").unwrap(), "1");
}

#[tokio::test]
async fn ipv4_clients_of_a_dual_stack_socket_have_buckets_of_their_own() {
    let layer = layer(&limiter_of(&ManualClock::default(), Limit::per_minute(1)));
    for last in 1..=50 {
        let response = send(&layer, &format!("::ffff:203.0.113.{last}")).await;
        assert_eq!(response.status(), StatusCode::OK);
    }
    assert_eq!(
        send(&layer, "203.0.113.1").await.status(),
        StatusCode::TOO_MANY_REQUESTS
    );
}

#[tokio::test]
async fn denial_by_the_second_limit_leaves_the_first_uncharged() {
    let limits = Limits::builder()
        .limit("a", Limit::per_minute(9))
        .limit("b", Limit::per_minute(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("a", ClientIp::peer()))
        .rule(Rule::new("b", Everyone));
    for _ in 0..5 {
        send(&layer, "203.0.113.7").await;
    }
    let a = limiter
        .check(&Transaction::new("a", "203.0.113.7").cost(0))
        .await
        .unwrap();
    assert_eq!(a.remaining(), Some(8));
}

#[tokio::test]
async fn clones_of_a_layer_per_connection_still_limit() {
    let layer = layer(&limiter(&ManualClock::default()));
    let mut denied = 0;
    for _ in 0..30 {
        let response = send(&layer.clone(), "203.0.113.7").await;
        denied += u32::from(response.status() == StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!(denied, 10);
}
