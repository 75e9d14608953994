//! Permits behind wrappers: an outage while they are held, local ones, and what is neither cached nor leased.

use std::{sync::atomic::Ordering, time::Duration};

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend,
    backend::{DenyCache, FailurePolicy, Lease},
    clock::ManualClock,
    decision::Source,
    limit::LimitName,
    limiter::{LimitHandle, Permit},
    transaction::OnFailure,
};

use super::permit_handles::{SECOND, Waits, enter, left, limits, pass};

/// Four at once, each for three seconds, behind a policy that grants a half of that without the store.
fn four(store: &Waits, on_failure: OnFailure) -> (LimitHandle, ManualClock) {
    let policy = FailurePolicy::new(DenyCache::new(store.clone()));
    let policy = policy.share(1, 2).on_failure(on_failure);
    let clock = ManualClock::default();
    let four = limits(Limit::concurrent(4).hold(3 * SECOND));
    let limiter = Limiter::new(four, policy).with_clock(clock.clone());
    (limiter.limit("l").unwrap(), clock)
}

fn fail(store: &Waits, fails: bool) {
    store.0.fails.store(fails, Ordering::SeqCst);
}

/// What the store itself says is left.
async fn left_at_store(store: &Waits, clock: &ManualClock, id: &str) -> u32 {
    let four = limits(Limit::concurrent(4).hold(3 * SECOND));
    let direct = Limiter::new(four, store.clone()).with_clock(clock.clone());
    left(&direct.limit("l").unwrap(), id).await
}

#[tokio::test(start_paused = true)]
async fn process_grants_its_share_without_the_store_and_owes_nothing_for_it() {
    let store = Waits::new(1);
    let (limit, clock) = four(&store, OnFailure::Local);
    let known = enter(&limit, "known").await.unwrap();
    fail(&store, true);
    // It knows of one permit of this client, and of none of the other.
    let mut local = Vec::new();
    for (id, most) in [("known", 1), ("other", 2)] {
        for _ in 0..most {
            let permit = enter(&limit, id).await.unwrap();
            assert_eq!(permit.decision().source(), Source::Local);
            local.push(permit);
        }
        assert!(enter(&limit, id).await.is_none(), "{id}");
    }
    pass(&clock, SECOND).await;
    fail(&store, false);
    // Work that has begun locally goes on, and the store never hears of it.
    for _ in 0..4 {
        pass(&clock, 3 * SECOND).await;
        assert!(known.is_held() && local.iter().all(Permit::is_held));
        assert_eq!(left_at_store(&store, &clock, "known").await, 3);
        assert_eq!(left_at_store(&store, &clock, "other").await, 4);
    }
    let another = enter(&limit, "other").await.unwrap();
    assert_eq!(another.decision().source(), Source::Store);
    assert!(another.release().await.unwrap());
    // In the next outage, it still counts.
    fail(&store, true);
    assert!(enter(&limit, "other").await.is_none());
    for permit in local {
        assert!(permit.release().await.unwrap());
    }
    assert!(enter(&limit.cost(2), "other").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn permits_of_the_store_are_kept_in_an_outage_shorter_than_their_hold() {
    for (outage, is_held) in [(SECOND * 3 / 2, true), (4 * SECOND, false)] {
        let store = Waits::new(1);
        let (limit, clock) = four(&store, OnFailure::Local);
        let permits = enter(&limit.cost(3), "a").await.unwrap();
        fail(&store, true);
        pass(&clock, outage).await;
        assert_eq!(permits.is_held(), is_held, "{outage:?}");
        fail(&store, false);
        pass(&clock, 2 * SECOND).await;
        assert_eq!(permits.is_held(), is_held, "{outage:?}");
        let left = left_at_store(&store, &clock, "a").await;
        assert_eq!(left, if is_held { 1 } else { 4 }, "{outage:?}");
        assert_eq!(permits.release().await.unwrap(), is_held, "{outage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn permit_that_cannot_be_given_back_comes_back_after_its_hold() {
    let store = Waits::new(1);
    let (limit, clock) = four(&store, OnFailure::Local);
    let permit = enter(&limit, "a").await.unwrap();
    fail(&store, true);
    assert!(permit.release().await.is_err());
    fail(&store, false);
    assert_eq!(left_at_store(&store, &clock, "a").await, 3);
    pass(&clock, 3 * SECOND).await;
    assert_eq!(left_at_store(&store, &clock, "a").await, 4);
}

#[tokio::test(start_paused = true)]
async fn limit_can_refuse_or_allow_work_without_the_store() {
    let store = Waits::new(1);
    fail(&store, true);
    let (limit, _) = four(&store, OnFailure::Refuse);
    assert!(limit.enter("a").await.is_err());
    let (limit, clock) = four(&store, OnFailure::Allow);
    let mut permits = Vec::new();
    for _ in 0..9 {
        permits.push(enter(&limit, "a").await.unwrap());
    }
    // Nothing counts them, so nothing is lost or renewed.
    pass(&clock, 9 * SECOND).await;
    assert!(permits.iter().all(Permit::is_held));
    assert!(permits.pop().unwrap().release().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn denials_are_not_cached() {
    let store = Waits::new(1);
    let (limit, _) = four(&store, OnFailure::Local);
    let (elsewhere, _) = four(&store, OnFailure::Local);
    let permits = enter(&elsewhere.cost(4), "a").await.unwrap();
    assert!(enter(&limit, "a").await.is_none());
    assert!(permits.release().await.unwrap());
    assert!(enter(&limit, "a").await.is_some());
}

#[test]
fn line_for_permits_on_another_backend_is_rejected_at_startup() {
    let waits = || limits(Limit::concurrent(4).max_wait(SECOND));
    let policy = FailurePolicy::new(Waits::new(1));
    for rejected in [
        Limiter::try_new(waits(), Waits::new(1)),
        Limiter::try_new(waits(), policy),
    ] {
        let error = rejected.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        let reason = "only a MemoryBackend learns when a permit comes back: remove the max_wait";
        assert!(source.contains(reason), "{source}");
    }
    Limiter::try_new(waits(), MemoryBackend::new()).unwrap();
    let at_once = limits(Limit::concurrent(4).max_wait(Duration::ZERO));
    Limiter::try_new(at_once, Waits::new(1)).unwrap();
}

#[test]
fn permits_are_not_leased() {
    let name = LimitName::from("l").lease(1, 2);
    let limits = Limits::builder().limit(name, Limit::concurrent(100));
    let lease = Lease::new(Waits::new(1), 2);
    let error = Limiter::try_new(limits.build().unwrap(), lease).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("permit"), "{source}");
}
