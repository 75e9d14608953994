//! A process of the fleet.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::task::JoinSet;
use tollgate::{
    Limit, Limiter, Limits, RateLimitLayer, Rule, Transaction,
    backend::{Backend, DenyCache, FailurePolicy, Lease},
    decision::Source,
    id::IdFormat,
    key::HeaderId,
    limit::LimitName,
    testing::SimulatedCluster,
};

use crate::{
    caller::Caller,
    link::Link,
    network::Network,
    plan::{Plan, Setup, tag_of},
    record::Record,
};

/// How long a client of a cluster waits for the answers to a batch.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The name of a limit that only the simulation uses.
const HEARTBEAT: &str = "heartbeat";

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) caller: Caller,
    tasks: JoinSet<()>,
}

pub(crate) fn name(place: usize) -> String {
    format!("limit{place}")
}

impl Process {
    pub(crate) fn start(
        place: usize,
        plan: &Arc<Plan>,
        network: &Arc<Network>,
        record: &Arc<Mutex<Record>>,
    ) -> Self {
        let link = Link {
            network: Arc::clone(network),
            process: place,
            life: network.life(place),
        };
        let limiter = Limiter::new(limits(&plan.setup), wrapped(&plan.setup, link));
        Self {
            caller: Caller {
                layer: layer(&limiter, plan.setup.limits.len()),
                limiter,
                process: place,
                plan: Arc::clone(plan),
                network: Arc::clone(network),
                record: Arc::clone(record),
            },
            tasks: JoinSet::new(),
        }
    }

    /// Runs a task as a caller of the process.
    pub(crate) fn spawn<F>(&mut self, task: impl FnOnce(Caller) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(task(self.caller.clone()));
    }

    /// Spends from a bucket that nothing else uses, and returns the source of the decision.
    pub(crate) async fn beat(&self, id: &str) -> Option<Source> {
        let beat = Transaction::new(HEARTBEAT, id);
        let decided = self.caller.limiter.spend(&beat).await.ok()?;
        decided.limited().then(|| decided.source())
    }

    /// Ends all callers, because the process has died.
    pub(crate) fn abort(&mut self) {
        self.tasks.abort_all();
    }

    /// Waits for all callers.
    pub(crate) async fn ended(&mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }
}

fn limits(setup: &Setup) -> Limits {
    let mut limits = Limits::builder();
    for (place, named) in setup.limits.iter().enumerate() {
        let number = u32::try_from(place).unwrap() + 1;
        let mut name = LimitName::new(&name(place), number, IdFormat::Opaque);
        if named.leased {
            name = name.lease(1, 5);
        }
        limits = limits.limit(name, named.terms.limit());
    }
    let heartbeat = LimitName::new(HEARTBEAT, 1000, IdFormat::Opaque);
    let heartbeat = limits.limit(heartbeat, Limit::per_second(1000));
    heartbeat.build().unwrap()
}

fn wrapped(setup: &Setup, link: Link) -> Arc<dyn Backend> {
    let mut backend: Arc<dyn Backend> = match setup.tags {
        Some(tags) => Arc::new(SimulatedCluster::new(
            link,
            move |id| tag_of(id, tags),
            TIMEOUT,
        )),
        None => Arc::new(link),
    };
    let processes = u32::try_from(setup.processes).unwrap();
    if setup.stack.cache {
        backend = Arc::new(DenyCache::new(backend));
    }
    if setup.stack.lease {
        backend = Arc::new(Lease::new(backend, processes));
    }
    if setup.stack.policy {
        let policy = FailurePolicy::new(backend).fleet(processes);
        backend = Arc::new(policy.on_failure(setup.on_failure));
    }
    backend
}

/// A layer with a rule for each limit, for requests that name it in a header.
fn layer(limiter: &Limiter, limits: usize) -> RateLimitLayer {
    let layer = RateLimitLayer::with_limiter(limiter.clone());
    (0..limits).fold(layer, |layer, place| {
        let header = name(place);
        let rule = Rule::new(name(place), HeaderId::new(&header));
        layer.rule(rule.only_if(move |parts| parts.headers.contains_key(&header)))
    })
}
