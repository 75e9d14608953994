//! A failover to a server with another clock: what is stored is then as much nearer, or farther away.

use std::time::Duration;

use tollgate::{
    Decision, Limit, Limiter, Limits, RedisBackend, Transaction,
    backend::{DenyCache, FailurePolicy},
};

use crate::{
    redis_support::Server,
    stack::{LONG, PATIENCE},
};

/// By how much the clocks differ, in microseconds.
pub(crate) const SKEW: i64 = 2 * 3600 * 1_000_000;

const HOUR: Duration = Duration::from_secs(3600);

/// One in an hour, and 20 at once. Nothing comes back during a test.
fn limit() -> Limit {
    Limit::per_hour(1).burst(20)
}

/// Changes what is stored to what another server finds whose clock is ahead by so many microseconds.
pub(crate) fn step_clock(server: &Server, ahead: i64) {
    for key in server.command(&["KEYS", "*"]).array() {
        let tat: i64 = server.command(&["GET", key.text()]).text().parse().unwrap();
        let seen = (tat - ahead).to_string();
        let set = ["SET", key.text(), &seen, "KEEPTTL"];
        server.command(&set).expect_success();
    }
}

/// A limiter that remembers denials for an hour.
async fn limiter(server: &Server) -> Limiter {
    let backend = RedisBackend::builder(server.url()).timeout(LONG);
    let backend = backend.build().unwrap();
    backend.connected(PATIENCE).await.unwrap();
    let cache = DenyCache::new(backend).lifetime(HOUR);
    let limits = Limits::builder().limit("requests", limit()).build();
    Limiter::new(limits.unwrap(), FailurePolicy::new(cache).deadline(LONG))
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
    assert!(denial.retry_after() <= HOUR);
    let fresh = self::limiter(&server).await;
    assert_eq!(exhaust(&fresh).await.0, 2, "two hours at one in an hour");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_that_is_behind_denies_for_as_long_as_the_difference() {
    let server = Server::start();
    let limiter = limiter(&server).await;
    assert_eq!(exhaust(&limiter).await.0, 20);
    step_clock(&server, -SKEW);
    let fresh = self::limiter(&server).await;
    let (passed, denial) = exhaust(&fresh).await;
    assert_eq!(passed, 0);
    let wait = denial.retry_after();
    assert!(
        (2 * HOUR..=3 * HOUR).contains(&wait),
        "one and two hours: {wait:?}"
    );
}
