//! Permits of work without HTTP: taken by handles, renewed in the background, and given back.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend,
    backend::{Backend, BackendError, async_trait},
    clock::{ManualClock, TokioClock},
    decision::Outcome,
    limiter::{LimitHandle, LimiterError, Permit},
    transaction::{Batch, Operation},
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn limits(limit: Limit) -> Limits {
    Limits::builder().limit("l", limit).build().unwrap()
}

/// Two at once, each for three seconds, by a clock that the test moves.
fn two(backend: impl Backend) -> (LimitHandle, ManualClock) {
    let clock = ManualClock::default();
    let two = limits(Limit::concurrent(2).hold(3 * SECOND));
    let limiter = Limiter::new(two, backend).with_clock(clock.clone());
    (limiter.limit("l").unwrap(), clock)
}

/// Lets time pass, for tasks as well.
pub(crate) async fn pass(clock: &ManualClock, time: Duration) {
    let step = Duration::from_millis(100);
    for _ in 0..time.as_millis() / step.as_millis() {
        clock.advance(step);
        tokio::time::advance(step).await;
        settle().await;
    }
}

/// Lets all tasks run until they wait.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn enter(limit: &LimitHandle, id: &str) -> Option<Permit> {
    limit.enter(id).await.unwrap().ok()
}

pub(crate) async fn left(limit: &LimitHandle, id: &str) -> u32 {
    let probe = limit.cost(0).check(id).await.unwrap();
    probe.remaining().unwrap()
}

/// A backend that waits before and after each decision, and counts its calls.
#[derive(Clone, Debug)]
pub(crate) struct Waits(pub(crate) Arc<WaitingStore>);

#[derive(Debug)]
pub(crate) struct WaitingStore {
    pub(crate) memory: MemoryBackend,
    turns: usize,
    renewals: AtomicUsize,
    pub(crate) fails: AtomicBool,
    /// Whether the answers to renewals are lost.
    loses: AtomicBool,
    /// How long an answer takes.
    delay: Mutex<Duration>,
}

impl Waits {
    pub(crate) fn new(turns: usize) -> Self {
        Self(Arc::new(WaitingStore {
            memory: MemoryBackend::new(),
            turns,
            renewals: AtomicUsize::new(0),
            fails: AtomicBool::new(false),
            loses: AtomicBool::new(false),
            delay: Mutex::default(),
        }))
    }
}

#[async_trait]
impl Backend for Waits {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let Self(store) = self;
        let renews = usize::from(batch.operation == Operation::Renew);
        store.renewals.fetch_add(renews, Ordering::SeqCst);
        for _ in 0..store.turns {
            tokio::task::yield_now().await;
        }
        if store.fails.load(Ordering::SeqCst) {
            return Err(BackendError::unavailable("it is down"));
        }
        let decided = store.memory.apply(batch).await;
        let delay = *store.delay.lock().unwrap();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if renews > 0 && store.loses.load(Ordering::SeqCst) {
            return Err(BackendError::unavailable("the answer is lost"));
        }
        for _ in 0..store.turns {
            tokio::task::yield_now().await;
        }
        decided
    }
}

#[tokio::test(start_paused = true)]
async fn permits_are_given_back_when_they_are_dropped_or_released() {
    let stores: [Arc<dyn Backend>; 2] = [Arc::new(MemoryBackend::new()), Arc::new(Waits::new(2))];
    for store in stores {
        let (limit, _) = two(store);
        let first = enter(&limit, "a").await.unwrap();
        let second = enter(&limit, "a").await.unwrap();
        assert_eq!(second.decision().remaining(), Some(0));
        let denied = limit.enter("a").await.unwrap().unwrap_err();
        assert_eq!(
            (denied.allowed(), denied.next_after()),
            (false, Decision::NEVER)
        );
        assert!(enter(&limit, "b").await.is_some());
        settle().await;
        assert_eq!(left(&limit, "b").await, 2);
        drop(first);
        settle().await;
        let third = enter(&limit, "a").await.unwrap();
        assert!(second.release().await.unwrap());
        assert_eq!(left(&limit, "a").await, 1);
        assert!(third.is_held());
        assert!(enter(&limit.cost(2), "a").await.is_none());
        assert!(third.release().await.unwrap());
        assert!(enter(&limit.cost(2), "a").await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn permits_are_renewed_as_long_as_they_are_held() {
    for turns in [0, 3] {
        let (limit, clock) = two(Waits::new(turns));
        let permits = [enter(&limit, "a").await.unwrap(), {
            pass(&clock, SECOND / 2).await;
            enter(&limit, "a").await.unwrap()
        }];
        for _ in 0..60 {
            pass(&clock, SECOND).await;
            assert!(permits.iter().all(Permit::is_held));
            assert!(enter(&limit, "a").await.is_none());
        }
        for (nth, permit) in permits.into_iter().enumerate() {
            assert!(permit.release().await.unwrap());
            assert_eq!(left(&limit, "a").await, 1 + u32::try_from(nth).unwrap());
        }
        settle().await;
        let tasks = tokio::runtime::Handle::current().metrics();
        pass(&clock, 2 * SECOND).await;
        assert_eq!(tasks.num_alive_tasks(), 0, "nothing is left to renew");
    }
}

#[tokio::test(start_paused = true)]
async fn permits_of_a_process_that_was_paused_are_lost() {
    let (limit, clock) = two(MemoryBackend::new());
    let permit = enter(&limit.cost(2), "a").await.unwrap();
    clock.advance(3 * SECOND);
    assert!(enter(&limit, "a").await.is_some(), "others start meanwhile");
    pass(&clock, 2 * SECOND).await;
    assert!(!permit.is_held());
    assert!(!permit.release().await.unwrap());
    assert_eq!(left(&limit, "a").await, 2);
}

#[tokio::test(start_paused = true)]
async fn permits_outlive_a_store_that_is_down_for_less_than_their_hold() {
    let store = Waits::new(1);
    let (limit, clock) = two(store.clone());
    let permit = enter(&limit, "a").await.unwrap();
    for (down, held) in [(15, true), (15, true), (40, false)] {
        store.0.fails.store(true, Ordering::SeqCst);
        pass(&clock, down * SECOND / 10).await;
        store.0.fails.store(false, Ordering::SeqCst);
        pass(&clock, SECOND).await;
        assert_eq!(permit.is_held(), held, "{down}");
        assert_eq!(left(&limit, "a").await, 2 - u32::from(held), "{down}");
    }
}

#[tokio::test(start_paused = true)]
async fn permits_are_not_lost_with_the_answer_to_a_renewal() {
    for turns in [0, 2] {
        let store = Waits::new(turns);
        let (limit, clock) = two(store.clone());
        let permit = enter(&limit, "a").await.unwrap();
        for _ in 0..5 {
            store.0.loses.store(true, Ordering::SeqCst);
            pass(&clock, 3 * SECOND / 2).await;
            store.0.loses.store(false, Ordering::SeqCst);
            pass(&clock, SECOND).await;
            // Those that have moved count as well, until they expire: never too few.
            assert!(permit.is_held() && left(&limit, "a").await <= 1);
            pass(&clock, 3 * SECOND).await;
            assert!(permit.is_held());
            assert_eq!(left(&limit, "a").await, 1);
        }
        assert!(permit.release().await.unwrap());
        assert_eq!(left(&limit, "a").await, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn permits_are_lost_if_no_answer_is_heard_for_their_hold() {
    let store = Waits::new(1);
    let (limit, clock) = two(store.clone());
    let permit = enter(&limit, "a").await.unwrap();
    store.0.loses.store(true, Ordering::SeqCst);
    pass(&clock, 3 * SECOND - SECOND / 10).await;
    assert!(permit.is_held());
    pass(&clock, SECOND).await;
    assert!(!permit.is_held());
    store.0.loses.store(false, Ordering::SeqCst);
    pass(&clock, 3 * SECOND).await;
    assert_eq!(left(&limit, "a").await, 2);
    assert!(!permit.release().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn hold_begins_when_the_store_is_asked() {
    let store = Waits::new(0);
    let (limit, clock) = two(store.clone());
    *store.0.delay.lock().unwrap() = 2 * SECOND;
    let permit = enter(&limit, "a").await.unwrap();
    store.0.fails.store(true, Ordering::SeqCst);
    pass(&clock, 9 * SECOND / 10).await;
    assert!(permit.is_held());
    pass(&clock, SECOND / 5).await;
    assert!(!permit.is_held());
}

#[tokio::test(start_paused = true)]
async fn permits_outlive_a_reload_that_changes_their_hold() {
    let store = Waits::new(1);
    let clock = ManualClock::default();
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
    store.0.fails.store(true, Ordering::SeqCst);
    pass(&clock, 11 * SECOND).await;
    assert!(!permit.is_held());
}

#[tokio::test(start_paused = true)]
async fn all_permits_are_given_back_when_the_limiter_is_closed() {
    for after in 0..8 {
        let store = Waits::new(3);
        let clock = ManualClock::default();
        let limits = limits(Limit::concurrent(2).hold(3 * SECOND));
        let limiter = Limiter::new(limits, store).with_clock(clock.clone());
        let limit = limiter.limit("l").unwrap();
        let permits = [
            enter(&limit, "a").await.unwrap(),
            enter(&limit, "b").await.unwrap(),
        ];
        clock.advance(SECOND);
        tokio::time::advance(SECOND).await;
        for _ in 0..after {
            tokio::task::yield_now().await;
        }
        limiter.close().await.unwrap();
        for id in ["a", "b"] {
            assert_eq!(left(&limit, id).await, 2, "{after}");
        }
        assert!(!permits.iter().any(Permit::is_held));
    }
}

#[tokio::test(start_paused = true)]
async fn callers_that_leave_at_any_await_leave_no_permit_behind() {
    let (limit, _) = two(Waits::new(2));
    let mut completed = 0;
    for polls in 0..40 {
        let mut entering = Box::pin(limit.enter("a"));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..polls {
            tokio::task::yield_now().await;
            if let Poll::Ready(entered) = entering.as_mut().poll(&mut context) {
                drop(entered.unwrap().unwrap());
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
async fn permits_that_are_given_back_during_a_renewal_are_given_back() {
    for after in 0..8 {
        for releases in [false, true] {
            let (limit, clock) = two(Waits::new(3));
            let permit = enter(&limit, "a").await.unwrap();
            clock.advance(SECOND);
            tokio::time::advance(SECOND).await;
            for _ in 0..after {
                tokio::task::yield_now().await;
            }
            match releases {
                true => assert!(permit.release().await.unwrap(), "{after}"),
                false => drop(permit),
            }
            settle().await;
            assert_eq!(left(&limit, "a").await, 2, "{after}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_permits_are_renewed_in_fifty_calls() {
    let store = Waits::new(0);
    let hundred = limits(Limit::concurrent(100).hold(3 * SECOND));
    let limiter = Limiter::new(hundred, store.clone()).with_clock(TokioClock::default());
    let limit = limiter.limit("l").unwrap();
    let mut permits = Vec::new();
    for nth in 0..10_000 {
        permits.push(enter(&limit, &(nth % 100).to_string()).await.unwrap());
    }
    tokio::time::advance(SECOND).await;
    settle().await;
    let calls = store.0.renewals.load(Ordering::SeqCst);
    assert!((40..=50).contains(&calls), "{calls}");
    assert!(permits.iter().all(Permit::is_held));
    limiter.close().await.unwrap();
    assert_eq!(left(&limit, "7").await, 100);
    assert!(!permits[7].is_held());
}

#[tokio::test]
async fn only_concurrency_limits_are_entered() {
    let other = Limiter::new(limits(Limit::per_second(5)), MemoryBackend::new());
    let error = other.limit("l").unwrap().enter("a").await.unwrap_err();
    assert!(matches!(error, LimiterError::NotRenewable { .. }));
    let off = Limiter::new(limits(Limit::UNLIMITED), MemoryBackend::new());
    let permit = enter(&off.limit("l").unwrap(), "a").await.unwrap();
    assert!(permit.is_held() && permit.release().await.unwrap());
    let blocked = Limiter::new(limits(Limit::BLOCKED), MemoryBackend::new());
    assert!(enter(&blocked.limit("l").unwrap(), "a").await.is_none());
}

/// Two at once in memory, for which callers wait for up to five seconds.
fn waiting_two() -> LimitHandle {
    let limits = limits(Limit::concurrent(2).max_wait(5 * SECOND));
    let limiter = Limiter::new(limits, MemoryBackend::new());
    limiter
        .with_clock(TokioClock::default())
        .limit("l")
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn callers_get_permits_in_order_of_arrival() {
    let limit = waiting_two();
    let mut held = vec![enter(&limit, "a").await.unwrap()];
    held.push(enter(&limit, "a").await.unwrap());
    let order: Arc<Mutex<Vec<u32>>> = Arc::default();
    let mut waiting = Vec::new();
    for nth in 0..6_u32 {
        let (limit, order) = (limit.cost(1 + nth % 2), Arc::clone(&order));
        waiting.push(tokio::spawn(async move {
            let permit = enter(&limit, "a").await;
            order.lock().unwrap().push(nth);
            tokio::time::sleep(SECOND / 2).await;
            permit.is_some()
        }));
        settle().await;
    }
    assert!(enter(&limit, "b").await.is_some(), "others do not wait");
    // One that leaves the line lets those behind it pass.
    waiting[3].abort();
    settle().await;
    assert!(order.lock().unwrap().is_empty());
    held.clear();
    for (nth, waiting) in waiting.into_iter().enumerate() {
        assert_eq!(waiting.await.unwrap_or_default(), nth != 3, "{nth}");
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 4, 5]);
    assert_eq!(left(&limit, "a").await, 2);
}

#[tokio::test(start_paused = true)]
async fn callers_are_refused_after_the_longest_wait() {
    let limit = waiting_two();
    let permits = enter(&limit.cost(2), "a").await.unwrap();
    let began = tokio::time::Instant::now();
    let denied = limit.enter("a").await.unwrap().unwrap_err();
    assert_eq!((denied.allowed(), began.elapsed()), (false, 5 * SECOND));
    let second = tokio::spawn({
        let limit = limit.clone();
        async move { enter(&limit, "a").await.is_some() }
    });
    tokio::time::sleep(4 * SECOND).await;
    drop(permits);
    assert!(second.await.unwrap());
}
