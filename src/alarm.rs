//! Waits that usually end within a quarter of a millisecond of their instant.
//!
//! tokio's timer counts whole milliseconds, rounds each deadline up, and sleeps for whole milliseconds from any moment in
//! between. So it can be two milliseconds late, and it wakes everything that is due in the same millisecond in any order.
//! Here it ends a wait shortly before its instant. A thread that sleeps to the microsecond takes over for the rest, and
//! wakes one task after the other, in the order of their instants.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, binary_heap::PeekMut},
    future::{Future, poll_fn},
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    process,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use tokio::time;

/// How long before its instant a wait passes from tokio's timer to the thread.
const LEAD: Duration = Duration::from_millis(3);

static ALARM: Alarm = Alarm::new(Duration::from_secs(10));

/// Waits until an instant of tokio's clock, and never returns before it.
///
/// # Panics
///
/// Outside of a tokio runtime, or in one without a timer.
pub(crate) fn until(instant: time::Instant) -> impl Future<Output = ()> + Send {
    let early = instant.checked_sub(LEAD).unwrap_or(instant);
    let timer = time::sleep_until(early);
    async move {
        let mut timer = pin!(timer);
        if time::Instant::now() < early {
            timer.as_mut().await;
        }
        timer.as_mut().reset(instant);
        let mut set_for: Option<Waker> = None;
        poll_fn(|cx| {
            let rest = instant.saturating_duration_since(time::Instant::now());
            if rest.is_zero() {
                return Poll::Ready(());
            }
            let waker = cx.waker();
            if is_real() && !set_for.as_ref().is_some_and(|set| set.will_wake(waker)) {
                ALARM.set(instant.into_std(), waker.clone());
                set_for = Some(waker.clone());
            }
            // It wakes the task if the thread does not.
            timer.as_mut().poll(cx)
        })
        .await;
    }
}

/// Returns whether tokio's clock is the real one. Tests can pause it. Then it advances while nothing else happens in the
/// runtime, and a thread that is about to wake a task there is not seen.
pub(crate) fn is_real() -> bool {
    let before = Instant::now();
    let now = time::Instant::now().into_std();
    (before..=Instant::now()).contains(&now)
}

/// A thread that wakes tasks. It is started when there is one to wake.
struct Alarm {
    calls: Mutex<Calls>,
    changed: Condvar,
    /// How long the thread stays when there is nothing to do.
    idle: Duration,
}

impl Alarm {
    const fn new(idle: Duration) -> Self {
        Self {
            calls: Mutex::new(Calls::new()),
            changed: Condvar::new(),
            idle,
        }
    }

    /// Wakes a task at an instant. If no thread can be started, it leaves that to the timer.
    fn set(&'static self, at: Instant, waker: Waker) {
        let mut calls = self.lock_own();
        let is_first = calls.add(at, waker);
        if calls.thread_of.is_none() {
            let thread = thread::Builder::new().name("tollgate-alarm".to_owned());
            let is_started = thread.spawn(|| self.run()).is_ok();
            calls.thread_of = is_started.then(process::id);
            if !is_started {
                let forgotten = mem::take(&mut calls.queue);
                drop(calls);
                drop(forgotten);
            }
        } else if is_first {
            self.changed.notify_one();
        }
    }

    fn run(&self) {
        let mut calls = self.lock();
        loop {
            match calls.due(Instant::now()) {
                Ok(waker) => {
                    drop(calls);
                    // A waker that panics must not end the thread, because others need it.
                    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
                    calls = self.lock();
                }
                Err(wait) => {
                    let waited = self.changed.wait_timeout(calls, wait.unwrap_or(self.idle));
                    let (after, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                    calls = after;
                    if timeout.timed_out() && calls.queue.is_empty() {
                        calls.thread_of = None;
                        return;
                    }
                }
            }
        }
    }

    /// Locks the calls of this process. A process that was forked from the one with the thread has no thread, and a copy of
    /// the calls, which it forgets.
    fn lock_own(&self) -> MutexGuard<'_, Calls> {
        let mut calls = self.lock();
        if calls
            .thread_of
            .is_none_or(|process| process == process::id())
        {
            return calls;
        }
        calls.thread_of = None;
        let copies = mem::take(&mut calls.queue);
        drop(calls);
        drop(copies);
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tasks to wake.
struct Calls {
    queue: BinaryHeap<Call>,
    added: u64,
    /// The process in which the thread runs, if there is one.
    thread_of: Option<u32>,
}

impl Calls {
    const fn new() -> Self {
        Self {
            queue: BinaryHeap::new(),
            added: 0,
            thread_of: None,
        }
    }

    /// Adds a task, and returns whether it is the first one to wake.
    fn add(&mut self, at: Instant, waker: Waker) -> bool {
        let nth = self.added;
        self.added += 1;
        self.queue.push(Call { at, nth, waker });
        self.queue.peek().is_some_and(|first| first.nth == nth)
    }

    /// Takes out the first task that is due, or returns the time until one is, if there is one.
    fn due(&mut self, now: Instant) -> Result<Waker, Option<Duration>> {
        let first = self.queue.peek_mut().ok_or(None)?;
        match first.at.saturating_duration_since(now) {
            Duration::ZERO => Ok(PeekMut::pop(first).waker),
            wait => Err(Some(wait)),
        }
    }
}

/// A task to wake. The greatest one is the first: by instant, and of one instant, the one that was added first.
struct Call {
    at: Instant,
    nth: u64,
    waker: Waker,
}

impl Ord for Call {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.nth).cmp(&(self.at, self.nth))
    }
}

impl PartialOrd for Call {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Call {}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, mpsc},
        task::{Context, Wake},
    };

    use tokio::runtime;

    use super::*;

    /// A task that sends its number when it is woken, or panics if it has none.
    struct Task(Option<u32>, mpsc::Sender<u32>);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            let number = self.0.expect("it has a number");
            // The test may have ended.
            let _ = self.1.send(number);
        }
    }

    fn waker(number: impl Into<Option<u32>>, woken: &mpsc::Sender<u32>) -> Waker {
        Arc::new(Task(number.into(), woken.clone())).into()
    }

    #[test]
    fn tasks_are_due_in_the_order_of_their_instants_and_then_of_their_arrival() {
        let (sender, woken) = mpsc::channel();
        let (mut calls, now) = (Calls::new(), Instant::now());
        let at = |ms| now + Duration::from_millis(ms);
        for (number, ms, is_first) in [
            (3, 2, true),
            (4, 2, false),
            (1, 1, true),
            (5, 3, false),
            (2, 1, false),
        ] {
            assert_eq!(
                calls.add(at(ms), waker(number, &sender)),
                is_first,
                "{number}"
            );
        }
        assert_eq!(calls.due(now).err(), Some(Some(Duration::from_millis(1))));
        while let Ok(waker) = calls.due(at(2)) {
            waker.wake();
        }
        assert_eq!(woken.try_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(calls.due(at(2)).err(), Some(Some(Duration::from_millis(1))));
        assert!(calls.due(at(3)).is_ok());
        assert_eq!(calls.due(at(3)).err(), Some(None));
    }

    fn runtime() -> runtime::Builder {
        let mut runtime = runtime::Builder::new_current_thread();
        runtime.enable_time();
        runtime
    }

    #[test]
    fn wait_is_woken_without_the_timer_and_never_ends_early() {
        // Nothing drives the runtime, so its timer wakes nobody.
        let runtime = runtime().build().expect("a runtime");
        let _entered = runtime.enter();
        let (sender, woken) = mpsc::channel();
        let turn = time::Instant::now() + LEAD / 2;
        let mut wait = Box::pin(until(turn));
        let waker = waker(1, &sender);
        while wait
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            // It is set once for each waker, so a call that comes too early would be the last one.
            assert_eq!(woken.recv(), Ok(1));
            assert!(time::Instant::now() >= turn);
        }
        assert!(time::Instant::now() >= turn);
    }

    #[test]
    fn paused_clock_is_left_to_its_runtime() {
        let paused = runtime().start_paused(true).build();
        paused.expect("a runtime").block_on(async {
            // While it stands still, it is not the real one; the moment of the pause is over.
            while time::Instant::now().into_std() == Instant::now() {}
            assert!(!is_real());
            let (sender, woken) = mpsc::channel();
            let turn = time::Instant::now() + LEAD / 2;
            let mut wait = Box::pin(until(turn));
            let waker = waker(1, &sender);
            let mut poll = || wait.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(poll().is_pending());
            drop(sender);
            // Long enough for the thread, whose clock goes on.
            thread::sleep(LEAD);
            assert_eq!(woken.try_recv().ok(), None);
            time::sleep_until(turn).await;
            assert!(poll().is_ready());
            // The timer has woken it, and nobody else.
            assert_eq!(woken.try_iter().count(), 1);
        });
        let real = runtime().build();
        real.expect("a runtime")
            .block_on(async { assert!(is_real()) });
    }

    #[test]
    fn thread_survives_a_waker_that_panics_and_is_started_again_when_it_has_ended() {
        static ALARM: Alarm = Alarm::new(Duration::ZERO);
        let (sender, woken) = mpsc::channel();
        for number in 0..10 {
            let now = Instant::now();
            ALARM.set(now, waker(None, &sender));
            ALARM.set(now, waker(number, &sender));
            assert_eq!(woken.recv(), Ok(number));
            while number % 2 == 0 && ALARM.lock().thread_of.is_some() {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn forked_process_starts_a_thread_of_its_own_and_wakes_no_task_of_the_other() {
        static ALARM: Alarm = Alarm::new(Duration::ZERO);
        let ((sender, woken), now) = (mpsc::channel(), Instant::now());
        {
            // The state that a fork copies, without the thread.
            let mut calls = ALARM.lock();
            calls.thread_of = Some(process::id() + 1);
            calls.add(now, waker(1, &sender));
        }
        ALARM.set(now, waker(2, &sender));
        assert_eq!(woken.recv(), Ok(2));
        while ALARM.lock().thread_of.is_some() {
            thread::yield_now();
        }
        assert_eq!(woken.try_iter().next(), None);
    }
}
