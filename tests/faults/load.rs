//! Load on a stack: tasks that spend until they are stopped, and the result of each call.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use tokio::{task::JoinHandle, time::sleep};
use tollgate::Limiter;
use tracing::instrument::WithSubscriber;

use crate::{
    eventually::eventually_async,
    report::{Report, Sum},
    stack::{Answer, Stack, spend},
};

/// The limits, and how many tasks spend from each, one call after the other.
const TASKS: [(&str, usize); 3] = [("local", 5), ("refuse", 2), ("allow", 2)];

/// The pause between two calls of a task.
const PAUSE: Duration = Duration::from_millis(2);

/// The store has returned after this number of decisions in a row.
const RETURNED: usize = 5;

/// One call, and its result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) limit: &'static str,
    /// The number of the id.
    pub(crate) id: usize,
    pub(crate) begun: Instant,
    pub(crate) took: Duration,
    pub(crate) answer: Answer,
}

/// A stack under load.
#[derive(Debug)]
pub(crate) struct Load {
    stack: Stack,
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    calls: Mutex<Vec<Call>>,
}

impl Load {
    fn start(stack: Stack) -> Self {
        let shared = Arc::<Shared>::default();
        let mut tasks = Vec::new();
        for (limit, count) in TASKS {
            let number = Arc::new(AtomicUsize::new(0));
            tasks.extend((0..count).map(|_| {
                let (shared, number) = (Arc::clone(&shared), Arc::clone(&number));
                let task = spend_on(stack.limiter.clone(), limit, number, shared);
                tokio::spawn(task.with_subscriber(stack.dispatch.clone()))
            }));
        }
        Self {
            stack,
            shared,
            tasks,
        }
    }

    pub(crate) fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Waits until this number of further calls was answered.
    pub(crate) async fn more(&self, calls: usize) {
        let enough = self.calls() + calls;
        eventually_async("more calls are answered", async || self.calls() >= enough).await;
    }

    /// Waits until the breaker has opened and this number of calls was answered after that.
    pub(crate) async fn more_without_the_store(&self, calls: usize) {
        eventually_async("the breaker opens", async || self.stack.opened() > 0).await;
        self.more(calls).await;
    }

    /// Waits until the store has decided some calls in a row that began after `fault`.
    async fn returns_after(&self, fault: Instant) {
        eventually_async("the store decides again", async || {
            self.returned_after(fault)
        })
        .await;
    }

    /// Whether a call was decided without the store.
    pub(crate) fn any_without(&self) -> bool {
        let calls = self.shared.calls.lock().unwrap();
        calls.iter().any(|call| call.answer == Answer::Without)
    }

    /// Stops the load.
    async fn stop(self) -> Report {
        self.shared.stop.store(true, SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        let calls = self.shared.calls.lock().unwrap().clone();
        Report::new(self.stack, calls)
    }

    fn calls(&self) -> usize {
        self.shared.calls.lock().unwrap().len()
    }

    /// Whether the store has decided some calls in a row that began after `fault`.
    fn returned_after(&self, fault: Instant) -> bool {
        let calls = self.shared.calls.lock().unwrap();
        let after = calls
            .iter()
            .filter(|call| call.limit == "allow" && call.begun >= fault);
        let in_a_row = after
            .rev()
            .take_while(|call| call.answer != Answer::Without);
        in_a_row.count() >= RETURNED
    }
}

/// Runs load on a stack while `fault` breaks the store and mends it, and returns the instant of the fault. No client is
/// admitted more than `at_most` says, and none is denied wrongly.
pub(crate) async fn scenario(
    stack: Stack,
    at_most: impl Fn(&str, &Sum) -> u32,
    fault: impl AsyncFnOnce(&Load) -> Instant,
) -> Report {
    let load = Load::start(stack);
    load.more(1000).await;
    let begun = fault(&load).await;
    load.returns_after(Instant::now()).await;
    load.more(500).await;
    let report = load.stop().await;
    report.assert_admitted(begun, at_most);
    report.assert_none_denied_wrongly();
    report
}

/// Spends until it is stopped.
async fn spend_on(
    limiter: Limiter,
    limit: &'static str,
    number: Arc<AtomicUsize>,
    shared: Arc<Shared>,
) {
    while !shared.stop.load(SeqCst) {
        let id = mixed(number.fetch_add(1, SeqCst));
        let begun = Instant::now();
        let answer = spend(&limiter, limit, &id_of(id)).await;
        let took = begun.elapsed();
        shared.calls.lock().unwrap().push(Call {
            limit,
            id,
            begun,
            took,
            answer,
        });
        sleep(PAUSE).await;
    }
}

pub(crate) fn id_of(number: usize) -> String {
    format!("client{number}")
}

/// Alternates between a new id and a random earlier one. Each has spent all that it may soon, and comes back
/// for more.
fn mixed(call: usize) -> usize {
    let newest = call / 50;
    match call % 2 {
        0 => newest,
        _ => call.wrapping_mul(0x9E37_79B9) % (newest + 1),
    }
}
