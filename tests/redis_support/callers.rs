//! Tasks that make calls until they are stopped.

use std::{
    mem::take,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time::sleep};

use super::eventually::eventually_async;

/// The pause between two calls of a task.
const PAUSE: Duration = Duration::from_millis(2);

/// Tasks, and their calls so far.
#[derive(Debug)]
pub(crate) struct Callers<C> {
    calls: Arc<Mutex<Vec<C>>>,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl<C: Send + 'static> Callers<C> {
    pub(crate) fn new() -> Self {
        Self {
            calls: Arc::default(),
            stop: Arc::default(),
            tasks: JoinSet::new(),
        }
    }

    /// Starts tasks that make the calls of a function, which gets the number of each call.
    pub(crate) fn start<F>(
        &mut self,
        tasks: usize,
        call: impl Fn(usize) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = C> + Send,
    {
        let call = Arc::new(call);
        let number = Arc::new(AtomicUsize::new(0));
        for _ in 0..tasks {
            let call = Arc::clone(&call);
            let number = Arc::clone(&number);
            let calls = Arc::clone(&self.calls);
            let stop = Arc::clone(&self.stop);
            self.tasks.spawn(async move {
                while !stop.load(SeqCst) {
                    let made = call(number.fetch_add(1, SeqCst)).await;
                    calls.lock().expect("nothing panics with it").push(made);
                    sleep(PAUSE).await;
                }
            });
        }
    }

    /// Returns a figure about the calls so far.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&[C]) -> T) -> T {
        look(&self.calls.lock().expect("nothing panics with it"))
    }

    /// Waits until this number of further calls has ended.
    pub(crate) async fn more(&self, calls: usize) {
        self.more_of(calls, |_| true).await;
    }

    /// Waits until this number of further calls of a kind has ended.
    pub(crate) async fn more_of(&self, calls: usize, is_of_it: impl Fn(&C) -> bool) {
        let count = || self.look(|calls| calls.iter().filter(|call| is_of_it(call)).count());
        let enough = count() + calls;
        eventually_async("more calls have ended", async || count() >= enough).await;
    }

    /// Stops the tasks, and returns their calls.
    pub(crate) async fn stop(self) -> Vec<C> {
        self.stop.store(true, SeqCst);
        self.tasks.join_all().await;
        take(&mut self.calls.lock().expect("nothing panics with it"))
    }
}

/// The client of a call: a new one, this number of times each, in turns with a random earlier one. So each has soon spent all that it
/// may, and comes back for more.
pub(crate) fn mixed(call: usize, times: usize) -> usize {
    let newest = call / (2 * times);
    match call % 2 {
        0 => newest,
        _ => call.wrapping_mul(0x9E37_79B9) % (newest + 1),
    }
}
