//! What the services of a layer share.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::{checks::Checks, waiting::Line};
use crate::{
    limit::{Limits, LimitsError},
    limiter::{Limiter, LimitsUser},
    response::{Headers, InForce, Responder},
    rule::{BoundRule, Conditions, Rule, Rules},
};

/// What the services of a layer share.
#[derive(Clone, Debug)]
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
    pub(super) line: Arc<Line>,
    pub(super) checks: Arc<Checks>,
}

/// The rules of a layer, with the limits in force.
#[derive(Debug)]
pub(super) struct Bound {
    rules: Rules,
    pub(super) in_force: ArcSwap<InForce>,
    /// Whether a rule charges by outcome.
    pub(super) settles: bool,
}

impl Bound {
    fn new(rules: Rules, limits: &Arc<Limits>) -> Self {
        let in_force = InForce::new(Arc::clone(limits));
        let settles = rules.iter().any(|rule| rule.charging().is_open());
        Self {
            rules,
            in_force: ArcSwap::from_pointee(in_force),
            settles,
        }
    }
}

impl LimitsUser for Bound {
    fn check(&self, before: Option<&Limits>, limits: &Limits) -> Result<(), LimitsError> {
        self.rules.check(before, limits)
    }

    fn adopt(&self, limits: &Arc<Limits>) {
        let in_force = InForce::new(Arc::clone(limits));
        self.in_force.store(Arc::new(in_force));
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
            line: Arc::default(),
            checks: Arc::default(),
        }
    }

    /// Decides by another limiter from now on, and by these rules.
    pub(super) fn decide_by(
        &mut self,
        limiter: Limiter,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Result<(), LimitsError> {
        let new = Self::new(limiter);
        (self.limiter, self.bound) = (new.limiter, new.bound);
        rules.into_iter().try_for_each(|rule| self.add_rule(rule))
    }

    pub(super) fn add_rule(&mut self, rule: Rule) -> Result<(), LimitsError> {
        let rules = self.bound.rules.with(rule, &self.limiter.limits())?;
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
}
