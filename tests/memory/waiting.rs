//! Limits with a line: the order in which callers wait, their shares, and the denials that a cache remembers.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

#[cfg(feature = "failure-policy")]
use tollgate::backend::FailurePolicy;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend,
    backend::DenyCache,
    clock::{Clock, ManualClock},
    testing::cases::history::Random,
};

const BURST: u32 = 4;
/// T in microseconds.
const INTERVAL: u64 = 250_000;
const LINE: Limit = Limit::per_second(4).max_wait(Duration::from_secs(3));

#[tokio::test]
async fn nobody_starves_and_nobody_overtakes() {
    let limits = Limits::builder().limit("l", LINE).build().unwrap();
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
    let (limit, mut random) = (limiter.limit("l").unwrap(), Random(5));
    let mut latest = 0;
    for _ in 0..2000 {
        let us = random.below(INTERVAL);
        clock.advance(Duration::from_micros(us));
        let now = clock.now().as_micros();
        let decision = limit.spend("a").await.unwrap();
        if decision.allowed() {
            let starts_at = now + u64::try_from(decision.delay().as_micros()).unwrap();
            assert!(
                latest <= starts_at,
                "each starts behind those who came before"
            );
            latest = starts_at;
        } else {
            let longest = latest - now;
            assert!(longest > 2_750_000, "only a full line turns callers away");
        }
    }
}

#[cfg(feature = "failure-policy")]
#[tokio::test]
async fn share_of_a_limit_has_a_line_of_its_own() {
    let down = tollgate::testing::MapBackend::default();
    let policy = FailurePolicy::new(down).share(1, 2);
    let policy = policy.max_in_flight(0);
    let limits = Limits::builder().limit("l", LINE).build().unwrap();
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits, policy).with_clock(clock.clone());
    let limit = limiter.limit("l").unwrap();
    let mut receipts = Vec::new();
    // Half of the burst and of the rate, and the whole wait.
    for half_seconds in [0, 0, 1, 2, 3, 4, 5, 6] {
        let decision = limit.spend("a").await.unwrap();
        let waits = Duration::from_millis(500 * half_seconds);
        assert_eq!((decision.allowed(), decision.delay()), (true, waits));
        receipts.push(decision.receipt().unwrap());
    }
    assert!(!limit.spend("a").await.unwrap().allowed());
    let middle = limit.refund_receipt("a", receipts.remove(3)).await;
    assert!(!middle.unwrap().refunded());
    let last = limit.refund_receipt("a", receipts.pop().unwrap()).await;
    assert!(last.unwrap().refunded());
    let again = limit.spend("a").await.unwrap();
    assert_eq!(again.delay(), Duration::from_secs(3));
}

#[tokio::test]
async fn cached_denial_of_one_who_does_not_wait_keeps_nobody_from_the_line() {
    let cache = DenyCache::new(tollgate::testing::MapBackend::default());
    let limits = Limits::builder().limit("l", LINE).build().unwrap();
    let limiter = Limiter::new(limits, cache).with_clock(ManualClock::default());
    let limit = limiter.limit("l").unwrap();
    limit.cost(BURST).spend("a").await.unwrap();
    for _ in 0..2 {
        let denied = limit.no_wait().spend("a").await.unwrap();
        let wait = Duration::from_micros(INTERVAL);
        assert_eq!((denied.allowed(), denied.retry_after()), (false, wait));
    }
    assert!(limit.spend("a").await.unwrap().allowed());
    for _ in 0..11 {
        assert!(limit.spend("a").await.unwrap().allowed());
    }
    for _ in 0..2 {
        let denied = limit.spend("a").await.unwrap();
        let wait = Duration::from_micros(INTERVAL);
        assert_eq!((denied.allowed(), denied.retry_after()), (false, wait));
    }
}
