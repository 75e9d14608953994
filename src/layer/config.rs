//! What the services of a layer share.

use std::{fmt, sync::Arc};

use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::checks::Checks;
use crate::{
    at_hand::Current,
    limit::{Limits, LimitsError},
    limiter::{Limiter, LimitsUser},
    response::{Headers, InForce, Responder},
    rule::{BoundRule, Conditions, Rule, Rules},
};

/// The most requests of a layer that wait in line at once. Further ones do not wait.
const MOST: usize = 10_000;

/// What the services of a layer share.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) limiter: Limiter,
    pub(super) bound: Arc<Bound>,
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

/// The rules of a layer, with the limits in force.
#[derive(Debug)]
pub(super) struct Bound {
    rules: Rules,
    pub(super) in_force: Current<InForce>,
    /// Whether a rule charges by outcome.
    pub(super) settles: bool,
}

impl Bound {
    fn new(rules: Rules, limits: &Arc<Limits>) -> Self {
        let in_force = InForce::new(Arc::clone(limits), &rules);
        let settles = rules.iter().any(|bound| bound.rule.by_outcome.is_some());
        Self {
            rules,
            in_force: Current::new(in_force),
            settles,
        }
    }
}

impl LimitsUser for Bound {
    fn check(&self, before: Option<&Limits>, limits: &Limits) -> Result<(), LimitsError> {
        self.rules.check(before, limits)
    }

    fn adopt(&self, limits: &Arc<Limits>) {
        let in_force = InForce::new(Arc::clone(limits), &self.rules);
        self.in_force.replace(Arc::new(in_force));
    }
}

impl Config {
    pub(super) fn new(limiter: Limiter) -> Self {
        let bound = Bound::new(Rules::default(), &limiter.limits());
        Self {
            limiter,
            bound: Arc::new(bound),
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
        let rules = self.bound.rules.with(rule, &self.limiter.limits());
        self.bound = self.limiter.register(|limits| Bound::new(rules, limits))?;
        self.checks = Arc::default();
        Ok(())
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.bound.rules
    }

    #[inline]
    pub(super) fn rule(&self, place: u32) -> &BoundRule {
        self.bound.rules.at(place)
    }

    /// Takes a seat for a request that may have to wait in line. Without a runtime, no request can.
    ///
    /// It is taken before the request is decided: one that is admitted to a line and then finds no seat would leave a slot behind
    /// that nobody uses.
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
