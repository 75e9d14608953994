//! Callers that wait in line until it is their turn, and callers that leave before.

use std::{iter, time::Duration};

use futures_util::FutureExt;
use tokio::{
    runtime::{Builder, Runtime},
    task::{JoinSet, yield_now},
    time::{Instant, timeout},
};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, custom::Operation},
    clock::{Clock, ManualClock, TokioClock},
    limit::LimitName,
    limiter::LimitHandle,
    testing::random::Random,
};

use crate::support::{
    patience::{LINE, T, poll, runtimes, settle},
    store::Store,
};

fn line(backend: impl Backend) -> LimitHandle {
    line_of(LINE, TokioClock::default(), backend)
}

fn line_of(limit: Limit, clock: impl Clock, backend: impl Backend) -> LimitHandle {
    let limits = Limits::builder().limit("l", limit).build().unwrap();
    let limiter = Limiter::new(limits, backend).with_clock(clock);
    limiter.limit("l").unwrap()
}

/// How long until the bucket is full.
async fn taken(limit: &LimitHandle) -> Duration {
    limit.peek("a").await.unwrap().reset_after().unwrap()
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
        if allowed {
            started.push((caller, at));
        } else {
            assert!(at.is_zero() && caller >= 22, "the line holds twenty");
        }
    }
    let expected = (0..22_u32).map(|caller| (caller, T * caller.saturating_sub(1)));
    assert_eq!(started, expected.collect::<Vec<_>>());
}

/// Callers come at random instants, and some leave the line.
#[tokio::test]
async fn line_starts_at_most_the_burst_and_what_comes_back_between_two_instants() {
    let mut is_reached = false;
    for seed in 0..100 {
        let mut random = Random(seed);
        let clock = ManualClock::default();
        let limit = line_of(LINE, clock.clone(), MemoryBackend::new());
        let mut now = Duration::ZERO;
        let mut starts = Vec::new();
        for _ in 0..200 {
            let pause = T * random.units(0, 15) / 10;
            clock.advance(pause);
            now += pause;
            let decision = limit.spend("a").await.unwrap();
            starts.extend(decision.receipt().map(|one| (now + decision.delay(), one)));
            let one = starts.len() - 1 - random.index(starts.len().min(3));
            if random.one_in(8) && starts[one].0 > now {
                limit
                    .refund_receipt("a", starts.remove(one).1)
                    .await
                    .unwrap();
            }
        }
        for (index, (first, _)) in starts.iter().enumerate() {
            for (count, (last, _)) in iter::zip(1.., &starts[index..]) {
                let bound = 2 + (*last - *first).as_micros() / T.as_micros();
                assert!(count <= bound, "{seed}: {count} from {first:?} to {last:?}");
                is_reached |= count == bound && count > 20;
            }
        }
    }
    assert!(is_reached);
}

#[tokio::test(start_paused = true)]
async fn caller_that_leaves_gives_its_slot_back_if_it_is_the_last() {
    let limit = line(MemoryBackend::new());
    limit.cost(2).spend("a").await.unwrap();
    drop(limit.acquire("a"));
    assert_eq!(taken(&limit).await, 2 * T, "it was never polled");
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

/// How often a store was asked to spend, and to refund.
fn counts(store: &Store) -> (usize, usize) {
    let count = |operation| store.count(operation);
    (count(Operation::Spend), count(Operation::Refund))
}

/// Before, during and after the store's decision.
#[tokio::test(start_paused = true)]
async fn caller_is_refunded_once_wherever_it_is_dropped() {
    for (decides, answers) in [(false, false), (true, false), (true, true)] {
        let store = Store::gated();
        let gates = store.gates();
        let two = line(store.clone()).cost(2);
        let mut caller = Box::pin(two.acquire("a"));
        assert!(poll(caller.as_mut()).is_pending());
        settle().await;
        gates.decide.add_permits(usize::from(decides));
        gates.answer.add_permits(usize::from(answers));
        settle().await;
        drop(caller);
        gates.open();
        settle().await;
        assert_eq!(counts(&store), (1, 1), "exactly once");
        assert_eq!(taken(&two).await, Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn close_waits_for_callers_that_left_and_for_their_refunds() {
    for is_decided in [true, false] {
        let store = Store::gated();
        let gates = store.gates();
        let limit = line(store.clone());
        let mut caller = Box::pin(limit.acquire("a"));
        assert!(poll(caller.as_mut()).is_pending());
        if is_decided {
            gates.decide.add_permits(1);
            gates.answer.add_permits(1);
            settle().await;
        }
        drop(caller);
        let mut closed = Box::pin(limit.limiter().close());
        assert!(poll(closed.as_mut()).is_pending());
        settle().await;
        assert!(poll(closed.as_mut()).is_pending());
        gates.open();
        closed.await.unwrap();
        assert_eq!(counts(&store), (1, 1), "{is_decided}");
    }
}

#[tokio::test(start_paused = true)]
async fn close_does_not_wait_for_a_caller_that_is_only_not_polled() {
    let store = Store::gated();
    let limit = line(store.clone());
    let mut caller = Box::pin(limit.acquire("a"));
    assert!(poll(caller.as_mut()).is_pending());
    store.gates().open();
    limit.limiter().close().await.unwrap();
    assert!(caller.await.unwrap().allowed());
    assert_eq!(counts(&store), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn started_caller_stays_charged() {
    let store = Store::default();
    let limit = line(store.clone());
    limit.cost(2).spend("a").await.unwrap();
    limit.spend("a").await.unwrap();
    assert!(timeout(T, limit.acquire("a")).await.is_err());
    settle().await;
    assert_eq!(counts(&store), (3, 1));
    assert!(limit.acquire("a").await.unwrap().allowed());
    settle().await;
    assert_eq!(counts(&store), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn reload_reset_and_close_move_no_waiting_caller() {
    let limit = line(MemoryBackend::new());
    limit.cost(2).spend("a").await.unwrap();
    let began = Instant::now();
    let [mut waits, mut leaves] = [0; 2].map(|_| Box::pin(limit.acquire("a")));
    assert!(poll(waits.as_mut()).is_pending() && poll(leaves.as_mut()).is_pending());
    let without = Limits::builder().limit("l", LINE.max_wait(Duration::ZERO));
    limit.limiter().reload(without.build().unwrap()).unwrap();
    assert!(!limit.acquire("a").await.unwrap().allowed(), "no line now");
    limit.limiter().close().await.unwrap();
    drop(leaves);
    assert_eq!(taken(&limit).await, 3 * T, "refunded as usual");
    limit.reset("a").await.unwrap();
    assert!(waits.await.unwrap().allowed());
    assert_eq!(began.elapsed(), T);
}

#[tokio::test]
async fn batch_waits_for_the_longest_of_its_lines_and_never_for_one_in_shadow_mode() {
    let second = 10 * T;
    let line = |count, period| Limit::per(count, period).burst(1).max_wait(HOUR);
    let shadow = LimitName::from("shadow").shadow(true);
    let limits = Limits::builder()
        .limit("fast", line(1, T))
        .limit("slow", line(1, second))
        .limit(shadow, line(1, HOUR / 10));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let batch = ["fast", "slow", "shadow"].map(|limit| Transaction::new(limit, "a"));
    for earlier in 0..3 {
        let decided = limiter.spend_batch(&batch).await.unwrap();
        assert!(decided.allowed());
        assert_eq!(decided.delay(), earlier * second);
    }
}

/// No caller waits for this long while a test runs, even on a slow machine.
const HOUR: Duration = Duration::from_secs(3600);

/// Lets a runtime end while a caller waits, and returns how much is taken afterwards. The clock stands still.
fn taken_after_the_end_of(runtime: Runtime, limit: &LimitHandle) -> Duration {
    runtime.block_on(async {
        limit.cost(2).spend("a").await.unwrap();
        let caller = limit.clone();
        tokio::spawn(async move { caller.acquire("a").await.map(drop) });
        while taken(limit).await < 3 * HOUR {
            yield_now().await;
        }
    });
    drop(runtime);
    let another = Builder::new_current_thread().build().unwrap();
    another.block_on(taken(limit))
}

/// The caller that cannot wait gives its slot in line back.
#[test]
fn waiting_without_a_timer_is_an_error() {
    let limit = line_of(LINE, ManualClock::default(), MemoryBackend::new());
    let without_timer = Builder::new_current_thread().build().unwrap();
    for _ in 0..2 {
        let decision = without_timer.block_on(limit.acquire("a")).unwrap();
        assert!(decision.allowed());
    }
    let in_runtime = without_timer.block_on(limit.acquire("a"));
    let outside = limit.acquire("a").now_or_never().unwrap();
    for (answer, remedy) in [(in_runtime, "enable_time"), (outside, "inside of one")] {
        let error = answer.unwrap_err().to_string();
        assert!(error.contains(remedy), "{error}");
    }
    assert_eq!(without_timer.block_on(taken(&limit)), 2 * T);
}

#[test]
fn runtime_that_ends_refunds_a_caller_in_line_if_the_store_does_not_wait() {
    for runtime in runtimes() {
        let line = Limit::per_hour(1).burst(2).max_wait(20 * HOUR);
        let limit = line_of(line, ManualClock::default(), MemoryBackend::new());
        assert_eq!(taken_after_the_end_of(runtime, &limit), 2 * HOUR);
    }
}
