//! Load on a stack: tasks that spend until they are stopped, and the result of each call.

use std::{
    future::pending,
    panic::Location,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tollgate::Limiter;
use tracing::instrument::WithSubscriber;

use crate::{
    report::Report,
    stack::{Answer, DEADLINE, PATIENCE, Stack, spend},
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
    /// By how much the runtime itself was late, at worst.
    lateness: Mutex<Duration>,
}

impl Load {
    pub(crate) fn start(stack: Stack) -> Self {
        let shared = Arc::<Shared>::default();
        let mut tasks = vec![tokio::spawn(measure_lateness(Arc::clone(&shared)))];
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
        until("more calls are answered", || self.calls() >= enough).await;
    }

    /// Waits until the breaker has opened and this number of calls was answered after that.
    pub(crate) async fn more_without_the_store(&self, calls: usize) {
        until("the breaker opens", || self.stack.opened() > 0).await;
        self.more(calls).await;
    }

    /// Waits until the store decides again, and returns how long that has taken.
    pub(crate) async fn returns_after(&self, fault: Instant) -> Duration {
        until("the store decides again", || {
            self.returned_after(fault).is_some()
        })
        .await;
        self.returned_after(fault).unwrap() - fault
    }

    /// Whether a call was decided without the store.
    pub(crate) fn any_without(&self) -> bool {
        let calls = self.shared.calls.lock().unwrap();
        calls.iter().any(|call| call.answer == Answer::Without)
    }

    /// Stops the load.
    pub(crate) async fn stop(self) -> Report {
        self.shared.stop.store(true, SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        let calls = self.shared.calls.lock().unwrap().clone();
        let lateness = *self.shared.lateness.lock().unwrap();
        Report::new(self.stack, calls, lateness)
    }

    fn calls(&self) -> usize {
        self.shared.calls.lock().unwrap().len()
    }

    /// Returns the instant at which the store had decided some calls in a row that began after `fault`.
    fn returned_after(&self, fault: Instant) -> Option<Instant> {
        let calls = self.shared.calls.lock().unwrap();
        let after = calls
            .iter()
            .filter(|call| call.limit == "allow" && call.begun >= fault);
        let mut in_a_row = 0;
        for call in after {
            in_a_row = if call.answer == Answer::Without {
                0
            } else {
                in_a_row + 1
            };
            if in_a_row == RETURNED {
                return Some(call.begun + call.took);
            }
        }
        None
    }
}

/// Waits until `condition` holds, while the load goes on.
#[track_caller]
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let begun = Instant::now();
        while !condition() {
            assert!(begun.elapsed() < PATIENCE, "{caller}: in vain: {what}");
            sleep(PAUSE).await;
        }
    }
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

/// Lets a deadline pass again and again, beside the load: what it is late by is the machine's part of what a run prints.
async fn measure_lateness(shared: Arc<Shared>) {
    while !shared.stop.load(SeqCst) {
        let begun = Instant::now();
        let _ = timeout(DEADLINE, pending::<()>()).await;
        let late = begun.elapsed().saturating_sub(DEADLINE);
        let mut worst = shared.lateness.lock().unwrap();
        *worst = late.max(*worst);
    }
}
