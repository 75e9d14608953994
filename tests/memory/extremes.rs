//! Settings and durations of any size: none panics, wraps around or takes memory without bound.

use std::time::Duration;

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, DenyCache},
    clock::{Clock, ManualClock, Timestamp},
};

use crate::support::store::Store;

/// Spends one unit of each kind of limit, and finds the second one denied.
async fn works(backend: impl Backend) {
    let limits = Limits::builder()
        .limit("rate", Limit::per_hour(1))
        .limit("window", Limit::window(1, Duration::from_secs(3600)));
    let limiter = Limiter::new(limits.build().unwrap(), backend);
    for name in ["rate", "window"] {
        let one = Transaction::new(name, "a");
        assert!(limiter.spend(&one).await.unwrap().allowed(), "{name}");
        assert!(!limiter.spend(&one).await.unwrap().allowed(), "{name}");
    }
}

#[tokio::test]
async fn capacities_beyond_all_memory_are_as_large_as_they_can_be() {
    works(DenyCache::with_capacity(Store::default(), usize::MAX).lifetime(Duration::MAX)).await;
    works(MemoryBackend::with_max_buckets(usize::MAX)).await;
    works(MemoryBackend::new().max_history_bytes(usize::MAX)).await;
}

#[cfg(feature = "failure-policy")]
#[tokio::test(start_paused = true)]
async fn failure_policy_takes_numbers_and_durations_of_any_size() {
    use tollgate::backend::FailurePolicy;

    let policy = FailurePolicy::new(Store::default())
        .deadline(Duration::MAX)
        .max_in_flight(usize::MAX)
        .failures_in_a_row(u32::MAX)
        .pay_back(usize::MAX);
    works(policy).await;
}

#[test]
fn manual_clock_never_steps_back_by_an_advance() {
    let clock = ManualClock::default();
    for by in [
        Duration::ZERO,
        Duration::MAX,
        Duration::MAX,
        Duration::from_micros(1),
    ] {
        let before = clock.now();
        clock.advance(by);
        assert!(clock.now() >= before, "{by:?}");
    }
    assert!(clock.now() >= Timestamp::END);
    clock.set(Timestamp::from_micros(7));
    assert_eq!(clock.now().as_micros(), 7);
}
