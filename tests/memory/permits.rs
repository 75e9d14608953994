//! Permits of work without HTTP: taken by handles, renewed in the background, and given back.

use std::{sync::Arc, time::Duration};

use tokio::{
    runtime::{Builder, Runtime},
    time::advance,
};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend,
    backend::{Backend, custom::Operation},
    clock::{ManualClock, TokioClock},
    limiter::{LimitHandle, LimiterError, Permit},
};
#[cfg(feature = "failure-policy")]
use tollgate::{backend::FailurePolicy, transaction::OnFailure};

use crate::support::{
    Log,
    patience::{poll, settle},
    store::{Fate, Store},
};

const SECOND: Duration = Duration::from_secs(1);

fn limits(limit: Limit) -> Limits {
    Limits::builder().limit("l", limit).build().unwrap()
}

fn handle(limit: Limit) -> LimitHandle {
    Limiter::new(limits(limit), MemoryBackend::new())
        .limit("l")
        .unwrap()
}

/// Two at once, each for three seconds, by a clock that the test moves.
fn two(backend: impl Backend) -> (LimitHandle, ManualClock) {
    let clock = ManualClock::default();
    let two = limits(Limit::concurrent(2).hold(3 * SECOND));
    let limiter = Limiter::new(two, backend).with_clock(clock.clone());
    (limiter.limit("l").unwrap(), clock)
}

/// Lets time pass, for tasks as well.
async fn pass(clock: &ManualClock, time: Duration) {
    let step = Duration::from_millis(100);
    for _ in 0..time.as_millis() / step.as_millis() {
        clock.advance(step);
        advance(step).await;
        settle().await;
    }
}

async fn enter(limit: &LimitHandle, id: &str) -> Option<Permit> {
    limit.enter(id).await.unwrap().ok()
}

async fn left(limit: &LimitHandle, id: &str) -> u32 {
    limit.peek(id).await.unwrap().remaining().unwrap()
}

/// Returns the permits left in a store, even while it answers with errors.
async fn left_in(store: &Store, clock: &ManualClock) -> u32 {
    let two = limits(Limit::concurrent(2).hold(3 * SECOND));
    let memory = store.memory();
    let limiter = Limiter::new(two, memory).with_clock(clock.clone());
    left(&limiter.limit("l").unwrap(), "a").await
}

#[tokio::test(start_paused = true)]
async fn permits_are_given_back_when_they_are_dropped_or_released() {
    let stores: [Arc<dyn Backend>; 2] =
        [Arc::new(MemoryBackend::new()), Arc::new(Store::yields(2))];
    for store in stores {
        let (limit, _) = two(store);
        let first = enter(&limit, "a").await.unwrap();
        let second = enter(&limit, "a").await.unwrap();
        let denied = limit.enter("a").await.unwrap().unwrap_err();
        assert_eq!((denied.allowed(), denied.next_after()), (false, None));
        assert!(enter(&limit, "b").await.is_some());
        drop(first);
        settle().await;
        let third = enter(&limit, "a").await.unwrap();
        assert!(second.release().await.unwrap());
        assert_eq!((left(&limit, "a").await, third.is_held()), (1, true));
        assert!(enter(&limit.cost(2), "a").await.is_none());
        assert!(third.release().await.unwrap());
        let both = enter(&limit.cost(2), "a").await.unwrap();
        limit.reset("a").await.unwrap();
        assert!(!both.release().await.unwrap(), "it was gone");
    }
}

#[tokio::test(start_paused = true)]
async fn permits_are_renewed_as_long_as_they_are_held() {
    for turns in [0, 3] {
        let (limit, clock) = two(Store::yields(turns));
        let first = enter(&limit, "a").await.unwrap();
        pass(&clock, SECOND / 2).await;
        let second = enter(&limit, "a").await.unwrap();
        for _ in 0..20 {
            pass(&clock, SECOND).await;
            assert!(first.is_held() && second.is_held());
            assert!(enter(&limit, "a").await.is_none());
        }
        assert!(first.release().await.unwrap() && second.release().await.unwrap());
        assert_eq!(left(&limit, "a").await, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn permits_of_a_process_that_was_paused_are_lost() {
    let (log, _guard) = Log::capture();
    let (limit, clock) = two(MemoryBackend::new());
    let permit = enter(&limit.cost(2), "a").await.unwrap();
    clock.advance(3 * SECOND);
    assert!(enter(&limit, "a").await.is_some(), "others start meanwhile");
    pass(&clock, 2 * SECOND).await;
    assert!(!permit.is_held());
    assert!(!permit.release().await.unwrap());
    assert_eq!(left(&limit, "a").await, 2);
    assert_eq!(log.count("permits were lost"), 1, "{log:?}");
    let permit = enter(&limit, "a").await.unwrap();
    limit.limiter().reload(limits(Limit::UNLIMITED)).unwrap();
    pass(&clock, 2 * SECOND).await;
    assert_eq!(log.count("permits were lost"), 1, "its limit has gone");
    drop(permit);
}

#[tokio::test(start_paused = true)]
async fn permits_outlive_a_store_that_is_down_for_less_than_their_hold() {
    let store = Store::yields(1);
    let (limit, clock) = two(store.clone());
    let permit = enter(&limit, "a").await.unwrap();
    for (down, held) in [(15, true), (15, true), (40, false)] {
        store.set_fate(Fate::NoReply);
        pass(&clock, down * SECOND / 10).await;
        store.set_fate(Fate::Works);
        pass(&clock, SECOND).await;
        assert_eq!(permit.is_held(), held, "{down}");
        assert_eq!(left(&limit, "a").await, 2 - u32::from(held), "{down}");
    }
}

#[tokio::test(start_paused = true)]
async fn permits_that_cannot_be_given_back_at_shutdown_are_an_error_until_they_are() {
    let store = Store::yields(1);
    let (limit, _) = two(store.clone());
    let permit = enter(&limit.cost(2), "a").await.unwrap();
    store.set_fate(Fate::NoReply);
    for _ in 0..2 {
        assert!(limit.limiter().close().await.is_err());
    }
    store.set_fate(Fate::Works);
    assert_eq!(left(&limit, "a").await, 0);
    limit.limiter().close().await.unwrap();
    assert_eq!(left(&limit, "a").await, 2);
    drop(permit);
}

#[tokio::test(start_paused = true)]
async fn permits_are_not_lost_with_the_answer_to_a_renewal() {
    let store = Store::yields(2);
    let (limit, clock) = two(store.clone());
    let permit = enter(&limit, "a").await.unwrap();
    for _ in 0..5 {
        store.set_fate_of(Operation::Renew, Fate::AppliesThenErrors);
        pass(&clock, 3 * SECOND / 2).await;
        store.set_fate(Fate::Works);
        pass(&clock, SECOND).await;
        assert!(permit.is_held());
        assert_eq!(left(&limit, "a").await, 1);
    }
    store.set_fate_of(Operation::Renew, Fate::AppliesThenErrors);
    pass(&clock, 4 * SECOND).await;
    assert!(!permit.is_held(), "no answer is heard for the hold");
    assert!(!permit.release().await.unwrap());
}

/// The store knows the permit by its name, whether it holds other permits or not.
#[cfg(feature = "failure-policy")]
#[tokio::test(start_paused = true)]
async fn permit_is_renewed_however_late_the_answers_are() {
    let store = Store::default();
    let policy = FailurePolicy::new(store.clone()).on_failure(OnFailure::Refuse);
    let clock = ManualClock::default();
    let one = limits(Limit::concurrent(1).hold(3 * SECOND));
    let limit = Limiter::new(one, policy).with_clock(clock.clone());
    let limit = limit.limit("l").unwrap();
    let permit = enter(&limit, "a").await.unwrap();
    store.set_fate(Fate::Takes(SECOND / 10));
    pass(&clock, 3 * SECOND / 2).await;
    store.set_fate(Fate::Works);
    pass(&clock, 3 * SECOND).await;
    assert!(enter(&limit, "a").await.is_none() && permit.is_held());
}

#[tokio::test(start_paused = true)]
async fn permits_of_work_that_has_ended_are_given_back_when_the_store_answers_again() {
    for fails in [true, false] {
        let store = Store::yields(1);
        let (limit, clock) = two(store.clone());
        let [first, second] = [enter(&limit, "a").await, enter(&limit, "a").await];
        if fails {
            store.set_fate(Fate::NoReply);
        } else {
            store.set_fate_of(Operation::Refund, Fate::AppliesThenErrors);
        }
        drop(first);
        assert!(second.unwrap().release().await.is_err());
        pass(&clock, 2 * SECOND).await;
        assert_eq!(left_in(&store, &clock).await, if fails { 0 } else { 2 });
        store.set_fate(Fate::Works);
        pass(&clock, SECOND / 2).await;
        assert_eq!(left(&limit, "a").await, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn refund_of_permits_goes_on_without_its_caller() {
    let store = Store::yields(1);
    let (limit, clock) = two(store.clone());
    let [first, second] = [limit.spend("a").await, limit.spend("a").await];
    let receipt = first.unwrap().receipt().unwrap();
    let mut refund = Box::pin(limit.refund_receipt("a", receipt));
    assert!(poll(refund.as_mut()).is_pending());
    drop(refund);
    settle().await;
    assert_eq!(left(&limit, "a").await, 1);
    store.set_fate(Fate::NoReply);
    let receipt = second.unwrap().receipt().unwrap();
    assert!(limit.refund_receipt("a", receipt).await.is_err());
    store.set_fate(Fate::Works);
    pass(&clock, SECOND / 2).await;
    assert_eq!(left(&limit, "a").await, 2);
}

#[tokio::test(start_paused = true)]
async fn permits_whose_answer_was_lost_are_given_back_by_name() {
    let store = Store::yields(1);
    let (limit, _) = two(store.clone());
    let permit = enter(&limit, "a").await;
    store.set_fate_of(Operation::Spend, Fate::AppliesThenErrors);
    for _ in 0..3 {
        assert!(limit.enter("a").await.is_err());
        settle().await;
    }
    store.set_fate(Fate::Works);
    assert_eq!(left(&limit, "a").await, 1);
    drop(permit);
}

/// The process decides in the store's place, and the store makes the charge all the same.
#[cfg(feature = "failure-policy")]
#[tokio::test(start_paused = true)]
async fn permits_of_answers_that_come_too_late_are_given_back_to_the_store() {
    let store = Store::default();
    let clock = ManualClock::default();
    let two = limits(Limit::concurrent(2).hold(3 * SECOND));
    let policy = FailurePolicy::new(store.clone());
    let limiter = Limiter::new(two, policy).with_clock(clock.clone());
    let limit = limiter.limit("l").unwrap();
    store.set_fate(Fate::Takes(SECOND / 10));
    let permit = enter(&limit, "a").await.unwrap();
    assert_eq!(left_in(&store, &clock).await, 2);
    assert!(permit.release().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn permits_that_are_lost_together_have_one_line() {
    let (log, _guard) = Log::capture();
    let store = Store::default();
    let many = limits(Limit::concurrent(1).hold(3 * SECOND));
    let clock = ManualClock::default();
    let limiter = Limiter::new(many, store.clone()).with_clock(clock.clone());
    let limit = limiter.limit("l").unwrap();
    let mut permits = Vec::new();
    for id in 0..2_000 {
        permits.push(enter(&limit, &id.to_string()).await.unwrap());
        if id % 500 == 0 {
            pass(&clock, SECOND / 10).await;
        }
    }
    store.set_fate(Fate::NoReply);
    pass(&clock, 4 * SECOND).await;
    assert!(permits.iter().all(|permit| !permit.is_held()));
    assert_eq!(log.count("permits were lost"), 1, "{log:?}");
    assert_eq!(log.count("permits=2000"), 1, "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn hold_begins_when_the_store_is_asked() {
    let store = Store::default();
    let (limit, clock) = two(store.clone());
    store.set_fate(Fate::Takes(2 * SECOND));
    let permit = enter(&limit, "a").await.unwrap();
    store.set_fate(Fate::NoReply);
    pass(&clock, 9 * SECOND / 10).await;
    assert!(permit.is_held());
    pass(&clock, SECOND / 10).await;
    assert!(!permit.is_held());
}

#[tokio::test(start_paused = true)]
async fn permits_outlive_a_reload_that_changes_their_hold() {
    let (store, clock) = (Store::yields(1), ManualClock::default());
    let of = |seconds| limits(Limit::concurrent(2).hold(seconds * SECOND));
    let limiter = Limiter::new(of(60), store.clone()).with_clock(clock.clone());
    let limit = limiter.limit("l").unwrap();
    let permit = enter(&limit, "a").await.unwrap();
    for seconds in [60, 30, 10, 4, 30, 10] {
        limiter.reload(of(seconds)).unwrap();
        pass(&clock, 9 * SECOND).await;
        assert!(permit.is_held(), "{seconds}");
        assert_eq!(left(&limit, "a").await, 1, "{seconds}");
    }
    // It is the last hold that counts.
    store.set_fate(Fate::NoReply);
    pass(&clock, 11 * SECOND).await;
    assert!(!permit.is_held());
}

/// A slow store is asked again, and has no permit any more when it decides on the first question.
#[tokio::test(start_paused = true)]
async fn permit_that_a_repetition_gives_back_was_held() {
    let store = Store::default();
    let (limit, _) = two(store.clone());
    let permit = enter(&limit, "a").await.unwrap();
    store.set_fate(Fate::Decides(SECOND));
    let released = tokio::spawn(permit.release());
    settle().await;
    store.set_fate(Fate::Works);
    assert!(released.await.unwrap().unwrap());
    assert_eq!(store.count(Operation::Refund), 2);
    assert_eq!(left(&limit, "a").await, 2);
}

/// `after` is the number of turns that a renewal has taken before the permits end.
#[tokio::test(start_paused = true)]
async fn permits_that_end_during_a_renewal_are_given_back() {
    let mut begun = 0;
    for (after, end) in
        (0..8).flat_map(|after| [(after, "drop"), (after, "release"), (after, "close")])
    {
        let store = Store::yields(3);
        let (limit, clock) = two(store.clone());
        let permit = enter(&limit, "a").await.unwrap();
        // The task that renews it waits from now on.
        settle().await;
        clock.advance(SECOND);
        advance(SECOND).await;
        for _ in 0..after {
            tokio::task::yield_now().await;
        }
        begun += u32::from(store.count(Operation::Renew) > 0);
        match end {
            "drop" => drop(permit),
            "release" => assert!(permit.release().await.unwrap(), "{after}"),
            _ => {
                limit.limiter().close().await.unwrap();
                assert!(!permit.is_held());
            }
        }
        settle().await;
        assert_eq!(left(&limit, "a").await, 2, "{end} after {after}");
    }
    assert!((6..=24).contains(&begun), "{begun} renewals have begun");
}

/// The runtime ends while the store has not answered a renewal.
#[test]
fn permit_that_ends_with_its_runtime_in_a_renewal_is_given_back_at_once() {
    let store = Store::default();
    let (limit, clock) = two(store.clone());
    let runtime = paused();
    let permit = runtime.block_on(async {
        let permit = enter(&limit, "a").await.unwrap();
        store.set_fate(Fate::Takes(10 * SECOND));
        pass(&clock, SECOND).await;
        store.set_fate(Fate::Works);
        permit
    });
    assert!(store.count(Operation::Renew) > 0);
    drop((permit, runtime));
    paused().block_on(async { assert_eq!(left(&limit, "a").await, 2) });
}

fn paused() -> Runtime {
    let mut runtime = Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn close_waits_for_permits_that_are_given_back() {
    let store = Store::yields(5);
    let (limit, _) = two(store.clone());
    let permits = [enter(&limit, "a").await, enter(&limit, "b").await];
    assert_eq!(store.memory().stats().buckets, Some(2));
    drop(permits);
    limit.limiter().close().await.unwrap();
    assert_eq!(store.memory().stats().buckets, Some(0));
}

#[tokio::test(start_paused = true)]
async fn callers_that_leave_at_any_await_leave_no_permit_behind() {
    let (limit, _) = two(Store::yields(2));
    let mut completed = 0;
    for polls in 0..40 {
        let mut entering = Box::pin(limit.enter("a"));
        for _ in 0..polls {
            tokio::task::yield_now().await;
            if poll(entering.as_mut()).is_ready() {
                completed += 1;
                break;
            }
        }
        drop(entering);
        settle().await;
        assert_eq!(left(&limit, "a").await, 2, "{polls} polls");
    }
    assert!((1..39).contains(&completed), "{completed}");
}

#[tokio::test(start_paused = true)]
async fn thousand_permits_are_renewed_once_in_a_third_of_their_hold() {
    let store = Store::default();
    let hundred = limits(Limit::concurrent(100).hold(3 * SECOND));
    let limiter = Limiter::new(hundred, store.clone()).with_clock(TokioClock::default());
    let limit = limiter.limit("l").unwrap();
    let mut permits = Vec::new();
    for nth in 0..1000 {
        permits.push(enter(&limit, &(nth % 10).to_string()).await.unwrap());
    }
    for renewals in [0, 1000, 1000] {
        settle().await;
        advance(SECOND / 2).await;
        settle().await;
        assert_eq!(store.count(Operation::Renew), renewals);
    }
    assert!(permits.iter().all(Permit::is_held));
    limiter.close().await.unwrap();
    assert_eq!(left(&limit, "7").await, 100);
    assert!(!permits[7].is_held());
}

#[tokio::test]
async fn only_concurrency_limits_are_entered() {
    let error = handle(Limit::per_second(5)).enter("a").await.unwrap_err();
    assert!(matches!(error, LimiterError::Unsupported { .. }), "{error}");
    let permit = enter(&handle(Limit::UNLIMITED), "a").await.unwrap();
    assert!(permit.is_held() && permit.release().await.unwrap());
    assert!(enter(&handle(Limit::BLOCKED), "a").await.is_none());
}

/// The permit that was charged is given back.
#[test]
fn entering_without_a_timer_is_an_error() {
    let limit = handle(Limit::concurrent(1));
    let without_timer = Builder::new_current_thread().build().unwrap();
    for _ in 0..2 {
        let error = without_timer.block_on(limit.enter("a")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("enable_time"), "{text}");
        assert_eq!(without_timer.block_on(left(&limit, "a")), 1);
    }
    let error = futures_util::FutureExt::now_or_never(limit.enter("a"))
        .unwrap()
        .unwrap_err();
    assert!(error.to_string().contains("no tokio runtime"), "{error}");
}

#[test]
fn permit_that_is_dropped_outside_of_its_runtime_or_after_it_is_given_back() {
    let limit = handle(Limit::concurrent(2));
    let runtime = || Builder::new_current_thread().enable_time().build().unwrap();
    let first = runtime();
    let [outside, after] = [(); 2].map(|()| first.block_on(enter(&limit, "a")).unwrap());
    drop(outside);
    assert_eq!(runtime().block_on(left(&limit, "a")), 1);
    drop(first);
    drop(after);
    assert_eq!(runtime().block_on(left(&limit, "a")), 2);
}
