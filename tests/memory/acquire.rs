//! Callers that wait until it is their turn, and callers that leave before.

#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{
    runtime::{Builder, Runtime},
    task::{JoinSet, yield_now},
    time::{Instant, timeout},
};
use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend,
    backend::Backend,
    clock::{Clock, ManualClock, TokioClock},
    limiter::LimitHandle,
    transaction::Mode,
};

use crate::support::patience::{LINE, Slow, T, poll, runtimes, settle};
use crate::support::store::{Fate, Store};

fn line(backend: impl Backend) -> LimitHandle {
    line_by(TokioClock::default(), backend)
}

fn line_by(clock: impl Clock, backend: impl Backend) -> LimitHandle {
    let limits = Limits::builder().limit("l", LINE).build().unwrap();
    let limiter = Limiter::new(limits, backend).with_clock(clock);
    limiter.limit("l").unwrap()
}

/// How long until the bucket is full.
async fn taken(limit: &LimitHandle) -> Duration {
    let probe = limit.cost(0).mode(Mode::CheckOnly);
    probe.check("a").await.unwrap().reset_after()
}

#[tokio::test(start_paused = true)]
async fn callers_start_in_order_each_at_its_instant() {
    let limit = line(MemoryBackend::new());
    let (began, mut callers) = (Instant::now(), JoinSet::new());
    for caller in 0..30_u32 {
        let limit = limit.clone();
        callers.spawn(async move {
            let decision = limit.acquire("a").await.unwrap();
            (caller, decision.allowed(), began.elapsed())
        });
    }
    let mut started = Vec::new();
    while let Some(caller) = callers.join_next().await {
        let (caller, allowed, at) = caller.unwrap();
        match allowed {
            true => started.push((caller, at)),
            false => assert!(at.is_zero() && caller >= 22, "the line holds twenty"),
        }
    }
    let expected = (0..22_u32).map(|caller| (caller, T * caller.saturating_sub(1)));
    assert_eq!(started, expected.collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn decision_says_what_was_waited_for_and_stays_charged() {
    let limit = line(MemoryBackend::new());
    let delays = async |limit: LimitHandle| {
        let decision: Decision = limit.acquire("a").await.unwrap();
        (decision.allowed(), decision.delay())
    };
    assert_eq!(delays(limit.cost(2)).await, (true, Duration::ZERO));
    assert_eq!(delays(limit.clone()).await, (true, T));
    assert_eq!(taken(&limit).await, 2 * T, "it has waited for a token");
    assert_eq!(delays(limit.no_wait()).await, (false, Duration::ZERO));
    assert_eq!(delays(limit.cost(0)).await, (true, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn caller_that_leaves_gives_its_slot_back_if_it_is_the_last() {
    let limit = line(MemoryBackend::new());
    limit.cost(2).spend("a").await.unwrap();
    let mut line = [0; 3].map(|_| Box::pin(limit.acquire("a")));
    for caller in &mut line {
        assert!(poll(caller.as_mut()).is_pending());
    }
    assert_eq!(taken(&limit).await, 5 * T);
    let [first, second, third] = line;
    drop(third);
    assert_eq!(taken(&limit).await, 4 * T);
    drop(first);
    assert_eq!(taken(&limit).await, 4 * T, "its slot is lost");
    let again = limit.acquire("a").await.unwrap();
    assert_eq!(again.delay(), 3 * T, "behind the second");
    assert!(second.await.unwrap().allowed());
}

#[tokio::test(start_paused = true)]
async fn caller_is_refunded_wherever_it_is_dropped() {
    // Before, during and after the store's decision; polled so often before it is dropped.
    for (decides, answers, spends) in [(false, false, 1), (true, false, 1), (true, true, 1)] {
        let store = Slow::default();
        let gates = Arc::clone(&store.gates);
        let limit = line(store);
        let two = limit.cost(2);
        let mut caller = Box::pin(two.acquire("a"));
        assert!(poll(caller.as_mut()).is_pending());
        settle().await;
        gates.decide.add_permits(usize::from(decides));
        gates.answer.add_permits(usize::from(answers));
        settle().await;
        drop(caller);
        gates.open();
        settle().await;
        assert_eq!(gates.counts(), (spends, 1), "exactly once");
        assert_eq!(taken(&limit).await, Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn caller_in_line_at_a_store_that_waits_is_refunded_once() {
    let store = Slow::default();
    let gates = Arc::clone(&store.gates);
    gates.open();
    let limit = line(store);
    limit.cost(2).spend("a").await.unwrap();
    limit.spend("a").await.unwrap();
    assert!(timeout(T, limit.acquire("a")).await.is_err());
    settle().await;
    assert_eq!(gates.counts(), (3, 1));
    let left = taken(&limit).await;
    assert!(left <= 2 * T, "{left:?}");
    let started = limit.acquire("a").await.unwrap();
    assert!(started.allowed());
    settle().await;
    assert_eq!(gates.counts(), (4, 1), "who has started stays charged");
}

#[tokio::test(start_paused = true)]
async fn caller_that_was_never_polled_has_charged_nothing() {
    let limit = line(MemoryBackend::new());
    drop(limit.acquire("a"));
    assert_eq!(taken(&limit).await, Duration::ZERO);
    let mut done = pin!(limit.acquire("a"));
    assert!(poll(done.as_mut()).is_ready());
    assert_eq!(taken(&limit).await, T);
}

#[tokio::test(start_paused = true)]
async fn reload_moves_nobody_who_waits() {
    let limit = line(MemoryBackend::new());
    limit.cost(2).spend("a").await.unwrap();
    let began = Instant::now();
    let mut waits = pin!(limit.acquire("a"));
    assert!(poll(waits.as_mut()).is_pending());
    let mut leaves = Box::pin(limit.acquire("a"));
    assert!(poll(leaves.as_mut()).is_pending());
    let without = Limits::builder().limit("l", LINE.max_wait(Duration::ZERO));
    limit.limiter().reload(without.build().unwrap()).unwrap();
    assert!(!limit.acquire("a").await.unwrap().allowed(), "no line now");
    drop(leaves);
    assert_eq!(taken(&limit).await, 3 * T, "refunded as usual");
    assert!(waits.await.unwrap().allowed());
    assert_eq!(began.elapsed(), T);
}

#[tokio::test(start_paused = true)]
async fn store_that_fails_while_callers_wait_moves_nobody() {
    let store = Store::default();
    let limit = line(store.clone());
    limit.cost(2).spend("a").await.unwrap();
    let mut callers = [0; 3].map(|_| Box::pin(limit.acquire("a")));
    for caller in &mut callers {
        assert!(poll(caller.as_mut()).is_pending());
        settle().await;
        assert!(poll(caller.as_mut()).is_pending());
    }
    let began = Instant::now();
    store.becomes(Fate::Away);
    assert!(limit.acquire("a").await.is_err());
    let [first, second, third] = callers;
    drop(third);
    settle().await;
    assert!(first.await.unwrap().allowed());
    assert!(second.await.unwrap().allowed());
    assert_eq!(began.elapsed(), 2 * T);
    store.becomes(Fate::Works);
    assert_eq!(taken(&limit).await, 3 * T, "the refund was lost");
}

#[tokio::test(start_paused = true)]
async fn close_moves_nobody_who_waits() {
    let limit = line(MemoryBackend::new());
    limit.cost(2).spend("a").await.unwrap();
    let began = Instant::now();
    let mut callers = [0; 3].map(|_| Box::pin(limit.acquire("a")));
    for caller in &mut callers {
        assert!(poll(caller.as_mut()).is_pending());
    }
    limit.limiter().close().await.unwrap();
    let [first, second, third] = callers;
    drop(third);
    assert_eq!(taken(&limit).await, 4 * T, "it is refunded as usual");
    assert!(first.await.unwrap().allowed());
    assert_eq!(began.elapsed(), T);
    assert!(second.await.unwrap().allowed());
    assert_eq!(began.elapsed(), 2 * T);
}

/// Lets a runtime end while a caller waits, and returns how much is taken afterwards. The clock stands still.
fn taken_after_the_end_of(runtime: Runtime, limit: &LimitHandle) -> Duration {
    runtime.block_on(async {
        limit.cost(2).spend("a").await.unwrap();
        let caller = limit.clone();
        tokio::spawn(async move { caller.acquire("a").await.map(drop) });
        while taken(limit).await < 3 * T {
            yield_now().await;
        }
    });
    drop(runtime);
    let another = Builder::new_current_thread().build().unwrap();
    another.block_on(taken(limit))
}

#[test]
fn runtime_that_ends_refunds_a_caller_in_line_if_the_store_does_not_wait() {
    for runtime in runtimes() {
        let limit = line_by(ManualClock::default(), MemoryBackend::new());
        assert_eq!(taken_after_the_end_of(runtime, &limit), 2 * T);
    }
}

#[test]
fn runtime_that_ends_leaves_the_charge_at_a_store_that_waits() {
    for runtime in runtimes() {
        let store = Slow::default();
        let gates = Arc::clone(&store.gates);
        gates.open();
        let limit = line_by(ManualClock::default(), store);
        assert_eq!(taken_after_the_end_of(runtime, &limit), 3 * T);
        assert_eq!(gates.counts(), (2, 0), "nothing could be sent");
    }
}

#[test]
fn callers_of_two_runtimes_wait_in_one_line_and_those_of_one_outlive_the_other() {
    let thousand = Limit::per_second(1000).burst(1).max_wait(60 * T);
    let limits = Limits::builder().limit("l", thousand).build().unwrap();
    let limit = Limiter::new(limits, MemoryBackend::new()).limit("l");
    let (limit, mut callers) = (limit.unwrap(), JoinSet::new());
    let [ends, stays] = [0; 2].map(|_| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().unwrap()
    });
    for runtime in [&ends, &stays].into_iter().cycle().take(80) {
        let limit = limit.clone();
        let waits = async move {
            let began = std::time::Instant::now();
            let decision = limit.acquire("a").await.unwrap();
            assert!(decision.allowed());
            assert!(began.elapsed() >= decision.delay(), "it starts early");
        };
        callers.spawn_on(waits, runtime.handle());
    }
    let started = stays.block_on(async {
        callers.join_next().await.unwrap().unwrap();
        ends.shutdown_background();
        let mut started = 1;
        while let Some(ended) = callers.join_next().await {
            match ended {
                Ok(()) => started += 1,
                Err(error) => assert!(error.is_cancelled(), "{error}"),
            }
        }
        started
    });
    assert!(started >= 40, "all of the runtime that stays");
}
