use std::{sync::Arc, time::Duration};

use http::request::Parts;
use tower_layer::Layer;

use super::{
    config::{DenyList, LayerConfig},
    service::RateLimit,
    traffic::Traffic,
};
use crate::{
    check::Checks,
    limiter::Limiter,
    response::{Grpc, Headers, Policy, Responder, ResponseFormat},
    rule::{Predicates, Rule, RuleError, Rules},
};

/// Limits the requests to the services that it wraps.
///
/// It is not generic and clones by reference, so it can be named in a struct or a function's
/// signature. All services that it or its clones wrap share the limiter's buckets.
///
/// See the [module docs](crate::layer) for an example.
#[derive(Clone, Debug)]
pub struct RateLimitLayer {
    plan: Arc<LayerConfig>,
}

impl RateLimitLayer {
    /// A layer without rules yet, which lets everything pass.
    #[must_use]
    pub fn with_limiter(limiter: Limiter) -> Self {
        let plan = LayerConfig {
            traffic: Arc::new(Traffic::new(Checks::new())),
            limiter,
            rules: Rules::default(),
            policies: Vec::new(),
            responder: Responder::default(),
            headers: Headers::default(),
            extensions: true,
            exempt: Predicates::default(),
            listed: Vec::new(),
            settles: false,
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
        plan.policies
            .resize_with(plan.rules.targets(), Policy::default);
        plan.settles = plan.rules.wait_for_endings();
        // Those of a clone have other places.
        plan.traffic = Arc::new(Traffic::new(plan.traffic.checks()));
        if let Some(finding) = plan.refused() {
            return Err(RuleError::Check(finding));
        }
        Ok(self)
    }

    /// Lets requests for which this is true pass, whatever the rules say, and charges them nothing. Any of several is
    /// enough. A path in disguise is asked about twice, as by [`Rule::skip_if`].
    ///
    /// ```
    /// use tollgate::{ClientIp, RateLimitLayer};
    /// # use tollgate::{Limiter, Limits, MemoryBackend};
    /// # let limiter = Limiter::new(Limits::default(), MemoryBackend::new());
    ///
    /// let ours = ClientIp::peer().within(["10.0.0.0/8", "fd00::/8"])?;
    /// let layer = RateLimitLayer::with_limiter(limiter).skip_if(ours);
    /// # let _ = layer;
    /// # Ok::<_, tollgate::key::RangeError>(())
    /// ```
    #[must_use]
    pub fn skip_if(mut self, skip: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.plan_mut().exempt.push(skip);
        self
    }

    /// Refuses requests for which this is true, with 403, before the rules are asked. The name of the list is told to the
    /// client. Those whom [`skip_if`](Self::skip_if) lets pass are let in all the same.
    ///
    /// A request whose path is in disguise (see [`paths`](crate::rule::paths)) is also refused if this is true of the path
    /// that a router may resolve it to.
    ///
    /// One client of a limit is kept out by an override, [`Limit::BLOCKED`](crate::Limit::BLOCKED).
    ///
    /// ```
    /// use tollgate::{ClientIp, RateLimitLayer};
    /// # use tollgate::{Limiter, Limits, MemoryBackend};
    /// # let limiter = Limiter::new(Limits::default(), MemoryBackend::new());
    ///
    /// let abusers = ClientIp::peer().within(["192.0.2.0/24", "2001:db8:bad::/48"])?;
    /// let layer = RateLimitLayer::with_limiter(limiter).deny_if("abusers", abusers);
    /// # let _ = layer;
    /// # Ok::<_, tollgate::key::RangeError>(())
    /// ```
    #[must_use]
    pub fn deny_if(
        mut self,
        list: &str,
        holds: impl Fn(&Parts) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.plan_mut().listed.push(DenyList {
            name: list.into(),
            holds: Arc::new(holds),
        });
        self
    }

    /// Sets what mistakes are looked for, and what is made of them. See [`check`](crate::check).
    ///
    /// # Panics
    ///
    /// If the checks are strict, and find something in the rules that there are.
    #[must_use]
    #[track_caller]
    pub fn checks(mut self, checks: Checks) -> Self {
        let plan = self.plan_mut();
        plan.traffic = Arc::new(Traffic::new(checks));
        if let Some(finding) = plan.refused() {
            panic!("{finding}");
        }
        self
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
    /// let layer = RateLimitLayer::with_limiter(limiter).respond_with(Problem::new());
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn respond_with(mut self, format: impl ResponseFormat) -> Self {
        self.plan_mut().responder.format = Arc::new(format);
        self
    }

    /// Sets which requests are refused as gRPC is. It is [`Grpc::Auto`] by default.
    ///
    /// Whatever is set, [`Ending::status`](crate::rule::Ending::status) of a refusal is the status that stands for its
    /// reason.
    ///
    /// ```
    /// use tollgate::response::Grpc;
    /// # use tollgate::{Limiter, Limits, MemoryBackend, RateLimitLayer};
    /// # let limiter = Limiter::new(Limits::default(), MemoryBackend::new());
    ///
    /// // nginx asks this server by `auth_request`, and takes 200 for a yes.
    /// let layer = RateLimitLayer::with_limiter(limiter).grpc(Grpc::Never);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn grpc(mut self, grpc: Grpc) -> Self {
        self.plan_mut().responder.grpc = grpc;
        self
    }

    /// Adds a random time of at most `jitter` to each refused client's wait, so that those who were refused together do not
    /// come back together. None is added by default.
    #[must_use]
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.plan_mut().responder.jitter = jitter;
        self
    }

    fn plan_mut(&mut self) -> &mut LayerConfig {
        Arc::make_mut(&mut self.plan)
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        if self.plan.rules.is_empty() && self.plan.listed.is_empty() {
            self.plan.health.idle();
        }
        if let Some(finding) = self.plan.mistake() {
            self.plan.traffic.tell(&finding);
        }
        RateLimit::new(inner, Arc::clone(&self.plan))
    }
}
