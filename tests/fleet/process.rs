//! A process of the fleet.

use std::{ops::Range, rc::Rc, sync::Arc, time::Duration};

use tokio::{
    runtime::{Builder, Runtime},
    time,
};
use tollgate::{
    Limiter, MemoryBackend, RateLimitLayer,
    backend::{Backend, DenyCache, FailurePolicy, Lease},
    testing::simulate,
    transaction::OnFailure,
};
use tracing::Dispatch;

use crate::{
    clock::ProcessClock,
    limits,
    link::Link,
    logs::{Lines, Log},
    network::SharedNetwork,
    plan::{Setup, Stack},
    random::Random,
    request,
};

pub(crate) struct Process {
    pub(crate) place: usize,
    pub(crate) clock: Arc<ProcessClock>,
    pub(crate) lines: Lines,
    /// The version of the limits.
    pub(crate) version: usize,
    pub(crate) limiter: Option<Limiter>,
    pub(crate) layer: Option<RateLimitLayer>,
    /// Until then, it stands still or does not run.
    pub(crate) away_until: u64,
    pub(crate) is_paused: bool,
    /// Whether its limiter was closed, and leases nothing any more.
    pub(crate) is_closed: bool,
    runtime: Option<Runtime>,
    log: Dispatch,
    random: Random,
    /// When it started.
    pub(crate) started: u64,
    at: u64,
}

impl Process {
    pub(crate) fn new(place: usize, random: Random) -> Self {
        let (clock, lines) = (Arc::new(ProcessClock::default()), Lines::default());
        let log = Log {
            lines: Arc::clone(&lines),
            clock: Arc::clone(&clock),
        };
        Self {
            place,
            clock,
            lines,
            version: 0,
            limiter: None,
            layer: None,
            away_until: 0,
            is_paused: false,
            is_closed: false,
            runtime: None,
            log: Dispatch::new(log),
            random,
            started: 0,
            at: 0,
        }
    }

    /// Starts with a version of the limits.
    pub(crate) fn start(
        &mut self,
        now: u64,
        setup: &Setup,
        network: &SharedNetwork,
        version: usize,
    ) {
        (self.version, self.is_closed, self.started) = (version, false, now);
        self.lines.lock().expect("nobody panics").clear();
        self.start_runtime(now);
        let link = Link {
            network: Arc::clone(network),
            process: self.place,
            clock: Arc::clone(&self.clock),
            is_cluster: setup.servers > 1,
        };
        // The keys of the hashes of limits are drawn when the first limit is made.
        let limits = || limits::of_version(&setup.limits, version, setup.on_failure);
        let limiter = self.enter(|| Limiter::new(limits(), wrapped(setup, link)));
        let layer = || request::layer(limiter.clone(), setup.limits.len(), setup.max_waiting);
        self.layer = Some(self.enter(layer));
        self.limiter = Some(limiter);
    }

    fn start_runtime(&mut self, now: u64) {
        let runtime = self.runtime_in_step();
        let clock = Arc::clone(&self.clock);
        runtime.block_on(async move {
            // Tokio's clock goes on from one runtime to the next.
            time::advance(clock.ahead_of_real()).await;
            clock.start(now);
        });
        self.at = now;
        self.runtime = Some(runtime);
    }

    /// Creates a runtime whose timers tick at the same instants as those of the last one. They count milliseconds from their
    /// start, which is at a real instant: so this waits for such an instant. The process sees its clock gain a little.
    fn runtime_in_step(&self) -> Runtime {
        let mut tries = 0..TRIES;
        loop {
            self.clock.wait_for_tick();
            let runtime = Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                // A runtime can end after any task.
                .event_interval(1)
                .build()
                .expect("there is memory for it");
            let gain = runtime.block_on(async { self.clock.gain() });
            let is_in_step = gain.is_none_or(|gain| GAIN.contains(&gain));
            if is_in_step || tries.next().is_none() {
                return runtime;
            }
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.runtime.is_some() && !self.is_paused
    }

    /// Runs until an instant.
    pub(crate) fn run(&mut self, until: u64) {
        if !self.runs() {
            return;
        }
        self.at = until;
        let clock = Arc::clone(&self.clock);
        self.block_on(async move { time::sleep_until(clock.instant(until)).await });
        self.clock.stand(until);
    }

    /// Goes on after a pause: its clock leaps, and all timers that are due by then fire.
    pub(crate) fn go_on(&mut self, now: u64) {
        self.is_paused = false;
        let gap = Duration::from_micros(now.saturating_sub(self.at));
        self.at = now;
        self.block_on(async move { time::advance(gap).await });
    }

    /// Spawns a task.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }

    pub(crate) fn block_on<T>(&mut self, future: impl Future<Output = T>) -> T {
        let runtime = self.runtime.as_ref().expect("it runs");
        let (clock, seed) = (Arc::clone(&self.clock), self.random.bits());
        simulate(Rc::new(move || clock.now()), seed, || {
            tracing::dispatcher::with_default(&self.log, || runtime.block_on(future))
        })
    }

    /// Runs a function in the process, outside of its tasks.
    fn enter<T>(&mut self, function: impl FnOnce() -> T) -> T {
        let (clock, seed) = (Arc::clone(&self.clock), self.random.bits());
        let _entered = self.runtime.as_ref().map(Runtime::enter);
        simulate(Rc::new(move || clock.now()), seed, || {
            tracing::dispatcher::with_default(&self.log, function)
        })
    }

    /// Ends the runtime, once so many of its tasks were polled. Whatever was under way there is dropped.
    pub(crate) fn end_runtime(&mut self, now: u64, polls: usize) {
        if !self.runs() {
            return;
        }
        self.block_on(async {
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
        });
        self.drop_runtime();
        self.start_runtime(now);
    }

    pub(crate) fn drop_runtime(&mut self) {
        let runtime = self.runtime.take();
        let clock = Arc::clone(&self.clock);
        simulate(Rc::new(move || clock.now()), self.random.bits(), || {
            tracing::dispatcher::with_default(&self.log, || drop(runtime));
        });
    }

    pub(crate) fn kill(&mut self) {
        self.drop_runtime();
        self.is_paused = false;
        let gone = (self.limiter.take(), self.layer.take());
        self.enter(|| drop(gone));
        self.clock.forget();
    }

    /// Returns the number of tasks that have not ended.
    pub(crate) fn tasks(&self) -> usize {
        let metrics = self.runtime.as_ref().map(Runtime::metrics);
        metrics.map_or(0, |metrics| metrics.num_alive_tasks())
    }
}

fn wrapped(setup: &Setup, link: Link) -> Arc<dyn Backend> {
    let processes = u32::try_from(setup.processes).expect("there are few");
    let cached = |link| DenyCache::with_capacity(link, 64);
    match setup.stack {
        Stack::Memory => {
            let memory = MemoryBackend::with_max_buckets(ROOM);
            Arc::new(memory.max_history_bytes(ROOM * 400))
        }
        Stack::Bare => Arc::new(link),
        Stack::Cache => Arc::new(cached(link)),
        Stack::Lease => Arc::new(Lease::new(link, processes)),
        Stack::LeaseCache => Arc::new(Lease::new(cached(link), processes)),
        Stack::Policy => policy(setup, link),
        Stack::PolicyCache => policy(setup, cached(link)),
        Stack::PolicyLease => policy(setup, Lease::new(link, processes)),
        Stack::PolicyLeaseCache => policy(setup, Lease::new(cached(link), processes)),
    }
}

/// How much the clock of a process may gain when its runtime is replaced: never nothing, so that what is due at an instant
/// is due in each run of a seed.
const GAIN: Range<Duration> = Duration::from_micros(1)..Duration::from_micros(30);

/// How often a process tries to be that accurate. A machine can be too slow for it.
const TRIES: u32 = 100;

/// The most buckets of a process without a store.
const ROOM: usize = 48;

/// The most buckets in the memory of a policy.
const BUCKETS: usize = 1024;

fn policy(setup: &Setup, store: impl Backend) -> Arc<dyn Backend> {
    let policy = FailurePolicy::new(store)
        .memory(MemoryBackend::with_max_buckets(BUCKETS))
        .share(setup.share.0, setup.share.1)
        .on_failure(OnFailure::Local)
        .max_in_flight(setup.max_in_flight);
    Arc::new(policy)
}
