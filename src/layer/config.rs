//! The configuration that the services of a layer share.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwap;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::checks::Checks;
use crate::{
    limit::{Limits, LimitsError},
    limiter::{Limiter, LimitsUser},
    response::{Headers, LimitsInForce, Responder},
    rule::{Conditions, LayerRule, Rule, Rules},
};

/// The most requests of a layer that wait in line at once. Further requests are refused instead.
const MOST: usize = 10_000;

/// The configuration that the services of a layer share.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) limiter: Limiter,
    pub(super) active: Arc<ActiveRules>,
    pub(super) responder: Responder,
    pub(super) headers: Headers,
    /// Whether requests carry an assessment.
    pub(super) extends: bool,
    /// The requests that are exempt from all rules.
    pub(super) exempt: Conditions,
    /// The lists of denied requests.
    pub(super) listed: Vec<(Arc<str>, Conditions)>,
    /// The seats of requests that wait in line, or that may have to.
    seats: Arc<Semaphore>,
    pub(super) checks: Arc<Checks>,
}

/// The rules of a layer, with the limits in force that they use.
#[derive(Debug)]
pub(super) struct ActiveRules {
    rules: Rules,
    pub(super) in_force: ArcSwap<LimitsInForce>,
    /// Whether a rule charges by outcome.
    pub(super) settles: bool,
}

impl ActiveRules {
    fn new(rules: Rules, limits: &Arc<Limits>) -> Self {
        let in_force = LimitsInForce::new(Arc::clone(limits), &rules);
        let settles = rules.iter().any(|bound| bound.rule.by_outcome.is_some());
        Self {
            rules,
            in_force: ArcSwap::from_pointee(in_force),
            settles,
        }
    }
}

impl LimitsUser for ActiveRules {
    fn check(&self, before: Option<&Limits>, limits: &Limits) -> Result<(), LimitsError> {
        self.rules.check(before, limits)
    }

    fn adopt(&self, limits: &Arc<Limits>) {
        let in_force = LimitsInForce::new(Arc::clone(limits), &self.rules);
        self.in_force.store(Arc::new(in_force));
    }
}

impl Config {
    pub(super) fn new(limiter: Limiter) -> Self {
        let active = ActiveRules::new(Rules::default(), &limiter.limits());
        Self {
            limiter,
            active: Arc::new(active),
            responder: Responder::default(),
            headers: Headers::default(),
            extends: false,
            exempt: Conditions::default(),
            listed: Vec::new(),
            seats: Arc::new(Semaphore::new(MOST)),
            checks: Arc::default(),
        }
    }

    pub(super) fn add_rule(&mut self, rule: Rule) -> Result<(), LimitsError> {
        let rules = self.active.rules.with(rule, &self.limiter.limits());
        self.active = self
            .limiter
            .register(|limits| ActiveRules::new(rules, limits))?;
        self.checks = Arc::default();
        Ok(())
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.active.rules
    }

    #[inline]
    pub(super) fn rule(&self, index: u32) -> &LayerRule {
        self.active.rules.at(index)
    }

    /// Takes a seat for a request that may have to wait in line. Without a runtime, requests cannot wait.
    ///
    /// The seat is taken before the decision. A request that is admitted to a line and then finds no seat would leave an unused
    /// slot in the line.
    #[inline]
    pub(super) fn seat_if(&self, may_wait: impl FnOnce() -> bool) -> Option<OwnedSemaphorePermit> {
        let can_wait = may_wait() && Handle::try_current().is_ok();
        let seat = || Arc::clone(&self.seats).try_acquire_owned().ok();
        can_wait.then(seat).flatten()
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("limiter", &self.limiter)
            .field("rules", self.rules())
            .finish_non_exhaustive()
    }
}
