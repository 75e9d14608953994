use std::{sync::Arc, time::Duration};

use tower_layer::Layer;

use super::{plan::Plan, service::RateLimit};
use crate::{
    limiter::Limiter,
    response::{Headers, Policy, Responder, ResponseFormat},
    rule::{Rule, RuleError, Rules},
};

/// Limits the requests to the services that it wraps.
///
/// It is not generic and clones by reference, so it can be named in a struct or a function's
/// signature. All services that it or its clones wrap share the limiter's buckets.
///
/// See the [module docs](crate::layer) for an example.
#[derive(Clone, Debug)]
pub struct RateLimitLayer {
    plan: Arc<Plan>,
}

impl RateLimitLayer {
    /// A layer without rules yet, which lets everything pass.
    #[must_use]
    pub fn new(limiter: Limiter) -> Self {
        let plan = Plan {
            limiter,
            rules: Rules::default(),
            policies: Vec::new(),
            responder: Responder::default(),
            headers: Headers::default(),
            extensions: true,
            health: Arc::default(),
        };
        Self {
            plan: Arc::new(plan),
        }
    }

    /// Adds a rule. A request is charged by all of a layer's rules or, if one denies, by none.
    ///
    /// # Panics
    ///
    /// If no limit has the rule's name, if its extractor finds no ids in the limit's format, if its
    /// cost is above the limit's burst or an override's, alone or with those of the limit's other
    /// rules, or if one of these has another mode.
    #[must_use]
    #[track_caller]
    pub fn rule(self, rule: Rule) -> Self {
        self.try_rule(rule)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Adds a rule, or says why it does not fit.
    ///
    /// # Errors
    ///
    /// Where [`rule`](Self::rule) panics.
    pub fn try_rule(mut self, rule: Rule) -> Result<Self, RuleError> {
        let plan = self.plan_mut();
        plan.rules.push(rule, &plan.limiter)?;
        plan.policies.push(Policy::default());
        Ok(self)
    }

    /// Sets in which dialect responses say how much is left. It is [`Headers::Draft10`] by default.
    #[must_use]
    pub fn headers(mut self, headers: Headers) -> Self {
        self.plan_mut().headers = headers;
        self
    }

    /// Sets whether requests and responses carry an [`Assessment`](super::Assessment) among their
    /// extensions. They do by default.
    #[must_use]
    pub fn extensions(mut self, extensions: bool) -> Self {
        self.plan_mut().extensions = extensions;
        self
    }

    /// Sets how refusals look, but those of gRPC requests. It is [`Registry`](crate::response::Registry) by default.
    ///
    /// ```
    /// use tollgate::response::Problem;
    /// # use tollgate::{Limiter, Limits, MemoryBackend, RateLimitLayer};
    /// # let limiter = Limiter::new(Limits::default(), MemoryBackend::new());
    ///
    /// let layer = RateLimitLayer::new(limiter).respond_with(Problem::new());
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn respond_with(mut self, format: impl ResponseFormat) -> Self {
        self.plan_mut().responder.format = Arc::new(format);
        self
    }

    /// Adds a random time of at most `jitter` to each refused client's wait, so that those who were refused together do not
    /// come back together. None is added by default.
    #[must_use]
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.plan_mut().responder.jitter = jitter;
        self
    }

    fn plan_mut(&mut self) -> &mut Plan {
        Arc::make_mut(&mut self.plan)
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        if self.plan.rules.is_empty() {
            tracing::warn!(
                "a RateLimitLayer without rules limits nothing: add one with `.rule(..)`"
            );
        }
        RateLimit::new(inner, Arc::clone(&self.plan))
    }
}
