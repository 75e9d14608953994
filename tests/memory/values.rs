//! Values that a caller brings for a client: they replace the default, but not an override.

use std::time::Duration;

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction, clock::ManualClock, limiter::LimiterError,
    quota::Per, tiers::Tier, transaction::Mode,
};

/// Ten per hour, but five for `own`, and `banned` is blocked.
fn limiter() -> Limiter {
    let limits = Limits::builder()
        .limit("plan", Limit::per_hour(10))
        .limit("other", Limit::per_hour(10))
        .override_for("plan", "own", Limit::per_hour(5))
        .override_for("plan", "banned", Limit::BLOCKED);
    let backend = MemoryBackend::new().max_history_bytes(1000);
    Limiter::new(limits.build().unwrap(), backend).with_clock(ManualClock::default())
}

/// A plan that changes does not fill the bucket.
#[tokio::test]
async fn bucket_is_that_of_the_named_limit() {
    let (limiter, gold) = (limiter(), Limit::per_hour(10).burst(20));
    let plain = Transaction::new("plan", "alice").cost(4);
    assert_eq!(limiter.spend(&plain).await.unwrap().remaining(), Some(6));
    let with_values = plain.limit_values(&gold);
    let spent = limiter.spend(&with_values).await.unwrap();
    assert_eq!(spent.remaining(), Some(12));
    let receipt = spent.receipt().unwrap();
    let refund = Transaction::new("plan", "alice").of_receipt(&receipt);
    assert_eq!(limiter.refund(&refund).await.unwrap().remaining(), Some(6));
    limiter.reset(&[with_values]).await.unwrap();
    assert_eq!(limiter.peek(&plain).await.unwrap().remaining(), Some(10));
}

#[tokio::test]
async fn values_that_the_backend_cannot_keep_are_an_error_of_the_batch() {
    let limiter = limiter();
    let other = Transaction::new("other", "alice");
    let window = Limit::window(4000, Duration::from_secs(60));
    for values in [window, Limit::concurrent(4000)] {
        let batch = [
            other,
            Transaction::new("plan", "alice").limit_values(&values),
        ];
        let error = limiter.spend_batch(&batch).await.unwrap_err();
        assert!(
            matches!(&error, LimiterError::Unsupported { limit, reason } if limit == "plan" && reason.contains("history")),
            "{error}"
        );
        assert_eq!(limiter.peek(&other).await.unwrap().remaining(), Some(10));
    }
}

/// The sizes are those of `docs/algorithms.md`.
#[test]
fn limit_is_refused_whose_history_of_8_bytes_per_unit_or_24_per_permit_cannot_fit() {
    for (limit, bytes) in [
        (Limit::window(50, Duration::from_secs(60)), 50 * 8),
        (Limit::concurrent(50), 50 * 24),
    ] {
        for (most, fits) in [(bytes, true), (bytes - 1, false)] {
            let limits = Limits::builder().limit("plan", limit.clone());
            let backend = MemoryBackend::new().max_history_bytes(most);
            let limiter = Limiter::try_new(limits.build().unwrap(), backend);
            assert_eq!(limiter.is_ok(), fits, "{limit}: {most}");
        }
    }
}

#[tokio::test]
async fn cost_is_checked_by_the_values() {
    let (limiter, small, large) = (limiter(), Limit::per_hour(2), Limit::per_hour(50));
    let twenty = Transaction::new("plan", "alice").cost(20);
    assert!(
        limiter
            .spend(&twenty.limit_values(&large))
            .await
            .unwrap()
            .allowed()
    );
    for (values, most) in [(Some(&small), 2), (None, 10)] {
        let spend = values.map_or(twenty, |values| twenty.limit_values(values));
        let error = limiter.spend(&spend).await.unwrap_err();
        assert!(
            matches!(error, LimiterError::CostAboveBurst { burst, .. } if burst == most),
            "{error}"
        );
    }
    let permits = Limit::concurrent(2);
    let debit = twenty.mode(Mode::Debit).limit_values(&permits);
    let error = limiter.spend(&debit).await.unwrap_err();
    assert!(matches!(error, LimiterError::Unsupported { .. }), "{error}");
}

/// A debit has no bound, and so its refund has none.
#[tokio::test]
async fn refund_above_the_burst_is_an_error_unless_it_is_that_of_a_debit() {
    let limits = Limits::builder().limit("l", Limit::per_minute(4));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let five = Transaction::new("l", "a").cost(5);
    for mode in [Mode::CheckAndSpend, Mode::CheckOnly, Mode::SpendOnly] {
        let error = limiter.refund(&five.mode(mode)).await.unwrap_err();
        assert!(
            matches!(error, LimiterError::CostAboveBurst { burst: 4, .. }),
            "{error}"
        );
    }
    let debit = five.mode(Mode::Debit);
    assert_eq!(limiter.spend(&debit).await.unwrap().remaining(), Some(0));
    assert_eq!(limiter.refund(&debit).await.unwrap().remaining(), Some(4));
}

#[tokio::test]
async fn cost_that_no_bucket_can_grant_is_an_error() {
    for limit in [
        Limit::per_minute(4),
        Limit::window(4, Duration::from_secs(60)),
        Limit::quota(4, Per::Hour),
        Limit::concurrent(4),
    ] {
        let limits = Limits::builder().limit("l", limit).build().unwrap();
        let limiter = Limiter::new(limits, MemoryBackend::new());
        let one = Transaction::new("l", "a");
        let error = limiter.spend(&one.cost(5)).await.unwrap_err();
        assert!(
            matches!(error, LimiterError::CostAboveBurst { burst: 4, .. }),
            "{error}"
        );
        for cost in [4, 5] {
            let part = one.cost(cost).min_cost(2);
            let error = limiter.spend(&part).await.unwrap_err();
            assert!(matches!(error, LimiterError::InvalidCost { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn group_request_is_granted_the_units_left_if_they_reach_its_minimum() {
    let tiers = Limit::tiers([Tier::new(4, Duration::from_secs(60))]).unwrap();
    let limits = Limits::builder().limit("l", tiers).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new());
    for (least, granted) in [(5, 0), (2, 4)] {
        let group = Transaction::new("l", "a").cost(6).min_cost(least);
        assert_eq!(limiter.spend(&group).await.unwrap().granted(), granted);
    }
}

#[tokio::test]
async fn figures_are_exact_where_64_bits_are_too_few() {
    let month = Duration::from_secs(30 * 86_400);
    let limits = Limits::builder().limit("l", Limit::new(u32::MAX, u32::MAX, month).unwrap());
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let spent = limiter.spend(&Transaction::new("l", "a")).await.unwrap();
    // A token takes 603.5 us.
    assert_eq!(
        (spent.remaining(), spent.more_after()),
        (Some(u32::MAX - 1), Some(Duration::from_micros(604)))
    );
}
