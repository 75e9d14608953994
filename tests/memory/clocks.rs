//! Clocks and settings at their edges: nothing panics, wraps around or takes memory without bound.

use std::time::Duration;

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::Backend,
    clock::{Clock, ManualClock, SystemClock, Timestamp},
};

const ONE: Duration = Duration::from_micros(1);

fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder()
        .limit("rate", Limit::per_hour(1))
        .limit("window", Limit::window(1, Duration::from_secs(3600)));
    Limiter::new(limits.build().unwrap(), backend)
}

/// Spends one unit of each kind of limit, and finds the second one denied.
async fn works(backend: impl Backend) {
    let limiter = limiter(backend);
    for name in ["rate", "window"] {
        let one = Transaction::new(name, "a");
        assert!(limiter.spend(&one).await.unwrap().allowed(), "{name}");
        assert!(!limiter.spend(&one).await.unwrap().allowed(), "{name}");
    }
}

#[tokio::test]
async fn capacities_beyond_all_memory_are_as_large_as_they_can_be() {
    works(MemoryBackend::with_max_buckets(usize::MAX)).await;
    works(MemoryBackend::new().max_history_bytes(usize::MAX)).await;
}

#[cfg(feature = "failure-policy")]
#[tokio::test(start_paused = true)]
async fn failure_policy_takes_durations_and_fleets_of_any_size() {
    use crate::support::store::{Fate, Store};

    for fate in [Fate::Works, Fate::Fails] {
        let policy = tollgate::backend::FailurePolicy::new(Store::new(fate));
        works(policy.deadline(Duration::MAX).fleet(u32::MAX)).await;
    }
}

#[test]
fn manual_clock_never_steps_back_by_an_advance() {
    let clock = ManualClock::default();
    for by in [Duration::ZERO, Duration::MAX, Duration::MAX, ONE] {
        let before = clock.now();
        clock.advance(by);
        assert!(clock.now() >= before, "{by:?}");
    }
    assert!(clock.now() >= Timestamp::END);
    clock.set(Timestamp::from_micros(7));
    assert_eq!(clock.now().as_micros(), 7);
}

#[tokio::test]
async fn timestamp_is_a_clock_that_stands_still_and_each_clone_of_a_limiter_keeps_its_own() {
    let limiter = limiter(MemoryBackend::new());
    let one = Transaction::new("rate", "a");
    let hour = Duration::from_secs(3600);
    let now = SystemClock::new().now();
    let then = limiter.clone().with_clock(now.saturating_add(hour));
    let later = limiter.clone().with_clock(now.saturating_add(2 * hour));
    assert!(then.spend(&one).await.unwrap().allowed());
    assert_eq!(then.spend(&one).await.unwrap().retry_after(), Some(hour));
    assert!(later.spend(&one).await.unwrap().allowed());
    assert!(
        !limiter.spend(&one).await.unwrap().allowed(),
        "the backend's own clock"
    );
}
