//! A failover to a server with another clock: what is stored is then as much nearer, or farther away.

use std::time::Duration;

use tollgate::{
    Decision, Limit, Limiter, Limits, RedisBackend, Transaction,
    backend::{DenyCache, FailurePolicy},
};

use crate::{redis_support::Server, stack::PATIENCE};

/// By how much the clocks differ, in microseconds.
const SKEW: i64 = 10_000_000;

/// For how long a denial is remembered.
const LIFETIME: Duration = Duration::from_millis(100);

/// One in five seconds, and 20 at once.
fn limit() -> Limit {
    Limit::per_minute(12).burst(20)
}

/// Changes what is stored to what another server finds whose clock is ahead by so many microseconds.
fn step_clock(server: &Server, ahead: i64) {
    for key in server.command(&["KEYS", "*"]).array() {
        let tat: i64 = server.command(&["GET", key.text()]).text().parse().unwrap();
        let seen = (tat - ahead).to_string();
        let set = ["SET", key.text(), &seen, "KEEPTTL"];
        server.command(&set).expect_success();
    }
}

async fn limiter(server: &Server) -> Limiter {
    let backend = RedisBackend::builder(server.url()).timeout(PATIENCE);
    let backend = backend.build().unwrap();
    backend.connected(PATIENCE).await.unwrap();
    let cache = DenyCache::new(backend).lifetime(LIFETIME);
    let limits = Limits::builder().limit("requests", limit()).build();
    Limiter::new(
        limits.unwrap(),
        FailurePolicy::new(cache).deadline(PATIENCE),
    )
}

/// Spends until denied: how often that was allowed, and the denial.
async fn exhaust(limiter: &Limiter) -> (u32, Decision) {
    let mut passed = 0;
    loop {
        let decision = limiter.spend(&Transaction::new("requests", "a")).await;
        let decision = decision.unwrap();
        if !decision.allowed() {
            return (passed, decision);
        }
        passed += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_that_is_ahead_admits_as_much_as_comes_back_in_the_difference() {
    let server = Server::start();
    let limiter = limiter(&server).await;
    assert_eq!(exhaust(&limiter).await.0, 20);
    step_clock(&server, SKEW);
    let (passed, denial) = exhaust(&limiter).await;
    assert_eq!(passed, 0, "who is remembered is denied as before");
    assert!(denial.retry_after() <= Duration::from_secs(5));
    tokio::time::sleep(LIFETIME).await;
    assert_eq!(exhaust(&limiter).await.0, 2, "10 s at one in 5 s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_that_is_behind_denies_for_as_long_as_the_difference() {
    let server = Server::start();
    let limiter = limiter(&server).await;
    assert_eq!(exhaust(&limiter).await.0, 20);
    step_clock(&server, -SKEW);
    tokio::time::sleep(LIFETIME).await;
    let (passed, denial) = exhaust(&limiter).await;
    assert_eq!(passed, 0);
    let wait = denial.retry_after();
    let (least, most) = (Duration::from_secs(13), Duration::from_secs(15));
    assert!((least..=most).contains(&wait), "5 s and 10 s: {wait:?}");
}
