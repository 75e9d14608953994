//! Quotas whose period changes while a client has used some of it. `agreement.rs` compares all cases with the models.

use std::time::Duration;

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::{ManualClock, Timestamp},
    quota::Per,
};

use crate::spend;

const HOUR: Duration = Duration::from_secs(3600);

/// A limiter, and the clock that it uses.
fn limiter(limit: Limit, now: &str) -> (Limiter, ManualClock) {
    let clock = ManualClock::new(at(now));
    let limiter = Limiter::new(limits(limit), MemoryBackend::new()).with_clock(clock.clone());
    (limiter, clock)
}

fn limits(limit: Limit) -> Limits {
    Limits::builder().limit("plan", limit).build().unwrap()
}

fn at(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_micros(instant.as_microsecond().cast_unsigned())
}

fn plan(cost: u32) -> Transaction<'static> {
    Transaction::new("plan", "client").cost(cost)
}

#[tokio::test]
async fn monthly_usage_counts_until_the_end_of_the_day_on_a_daily_plan() {
    let (limiter, clock) = limiter(Limit::quota(100, Per::Month), "2026-06-03T10:00:00Z");
    spend(&limiter, plan(100)).await;
    limiter
        .reload(limits(Limit::quota(1000, Per::Day)))
        .unwrap();
    assert_eq!(spend(&limiter, plan(900)).await.remaining(), Some(0));
    let denied = spend(&limiter, plan(1)).await;
    assert_eq!(denied.retry_after(), Some(14 * HOUR));
    clock.set(at("2026-06-04T00:00:00Z"));
    assert_eq!(spend(&limiter, plan(1)).await.remaining(), Some(999));
}

#[tokio::test]
async fn daily_usage_above_an_hourly_plan_denies_until_the_hour_ends() {
    let (limiter, clock) = limiter(Limit::quota(2000, Per::Day), "2026-06-03T01:00:00Z");
    spend(&limiter, plan(500)).await;
    limiter
        .reload(limits(Limit::quota(100, Per::Hour)))
        .unwrap();
    clock.set(at("2026-06-03T01:59:59Z"));
    let denied = spend(&limiter, plan(1)).await;
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    clock.set(at("2026-06-03T02:00:00Z"));
    assert!(spend(&limiter, plan(100)).await.allowed());
}

#[tokio::test]
async fn usage_of_a_long_first_use_denies_for_the_new_length_at_most() {
    let (limiter, clock) = limiter(
        Limit::quota(10, Per::first_use(720 * HOUR)),
        "2026-06-03T00:00:00Z",
    );
    spend(&limiter, plan(10)).await;
    let per_day = Limit::quota(10, Per::first_use(24 * HOUR));
    limiter.reload(limits(per_day)).unwrap();
    let denied = spend(&limiter, plan(1)).await;
    assert_eq!(denied.retry_after(), Some(24 * HOUR));
    clock.advance(23 * HOUR);
    let denied = spend(&limiter, plan(1)).await;
    assert_eq!(denied.retry_after(), Some(HOUR));
    clock.advance(HOUR);
    assert!(spend(&limiter, plan(10)).await.allowed());
}
