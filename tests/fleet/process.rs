//! A process of the fleet.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use tokio::task::JoinSet;
use tollgate::{
    Limit, Limiter, Limits, RateLimitLayer, Rule,
    backend::{Backend, DenyCache, FailurePolicy, Lease},
    key::HeaderId,
    limit::LimitName,
    testing::SimulatedCluster,
};

use crate::{
    caller::Caller,
    link::{Link, PATIENCE},
    network::Network,
    plan::{Setup, tag_of},
};

/// The name of a limit that only the simulation uses.
pub(crate) const HEARTBEAT: &str = "heartbeat";

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) caller: Caller,
    /// The tasks of callers.
    pub(crate) tasks: JoinSet<()>,
    is_alive: Arc<AtomicBool>,
    /// When it starts again, if it was killed.
    pub(crate) down_until: Option<u64>,
}

/// The names of the limits.
pub(crate) const NAMES: [&str; 3] = ["first", "second", "third"];

impl Process {
    pub(crate) fn start(process: usize, network: &Arc<Network>) -> Self {
        let setup = &network.plan.setup;
        let is_alive = Arc::new(AtomicBool::new(true));
        let link = Link {
            network: Arc::clone(network),
            process,
            is_alive: Arc::clone(&is_alive),
        };
        let limiter = Limiter::new(limits(setup), wrapped(setup, link));
        Self {
            caller: Caller {
                layer: layer(&limiter, setup.limits.len()),
                limiter,
                process,
                network: Arc::clone(network),
            },
            tasks: JoinSet::new(),
            is_alive,
            down_until: None,
        }
    }

    /// Ends all callers. Messages under way never arrive.
    pub(crate) fn kill(&mut self, until: u64) {
        self.tasks.abort_all();
        self.is_alive.store(false, Relaxed);
        self.down_until = Some(until);
    }
}

fn limits(setup: &Setup) -> Limits {
    let mut limits = Limits::builder().limit(HEARTBEAT, Limit::per_second(1000));
    for (name, terms) in NAMES.into_iter().zip(&setup.limits) {
        let mut name = LimitName::from(name);
        if terms.leased {
            name = name.lease(1, 5);
        }
        limits = limits.limit(name, terms.limit());
    }
    limits.build().unwrap()
}

fn wrapped(setup: &Setup, link: Link) -> Arc<dyn Backend> {
    let mut backend: Arc<dyn Backend> = Arc::new(link);
    if setup.is_cluster {
        let tags = setup.connections;
        let slot_of = move |id: &str| tag_of(id, tags);
        backend = Arc::new(SimulatedCluster::new(backend, slot_of, PATIENCE));
    }
    if setup.cache {
        backend = Arc::new(DenyCache::new(backend));
    }
    if setup.lease {
        backend = Arc::new(Lease::new(backend, setup.processes));
    }
    if setup.policy {
        let policy = FailurePolicy::new(backend).fleet(setup.processes);
        backend = Arc::new(policy.on_failure(setup.on_failure));
    }
    backend
}

/// A layer with a rule for each limit, for requests that name it in a header.
fn layer(limiter: &Limiter, limits: usize) -> RateLimitLayer {
    let layer = RateLimitLayer::with_limiter(limiter.clone());
    NAMES.into_iter().take(limits).fold(layer, |layer, name| {
        let rule = Rule::new(name, HeaderId::new(name));
        layer.rule(rule.only_if(move |parts| parts.headers.contains_key(name)))
    })
}
