use std::sync::Arc;

use bytes::Bytes;
use http::{Response, request::Parts};
use tower_layer::Layer;

use super::{plan::Plan, service::RateLimit, traffic::Traffic};
use crate::{
    check::Checks,
    limiter::Limiter,
    response::{Denial, Policy, Responder},
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
    plan: Arc<Plan>,
}

impl RateLimitLayer {
    /// A layer without rules yet, which lets everything pass.
    #[must_use]
    pub fn new(limiter: Limiter) -> Self {
        let plan = Plan {
            traffic: Arc::new(Traffic::new(&limiter, Checks::new())),
            limiter,
            rules: Rules::default(),
            policies: Vec::new(),
            responder: Responder::default(),
            headers: true,
            extensions: true,
            exempt: Predicates::default(),
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
        plan.verify().map_err(RuleError::Check)?;
        Ok(self)
    }

    /// Lets requests for which this is true pass, whatever the rules say, and charges them nothing. Any of several is
    /// enough.
    ///
    /// ```
    /// use tollgate::{ClientIp, RateLimitLayer};
    /// # use tollgate::{Limiter, Limits, MemoryBackend};
    /// # let limiter = Limiter::new(Limits::default(), MemoryBackend::new());
    ///
    /// let ours = ClientIp::peer().within(["10.0.0.0/8", "fd00::/8"])?;
    /// let layer = RateLimitLayer::new(limiter).skip_if(ours);
    /// # let _ = layer;
    /// # Ok::<_, tollgate::key::RangeError>(())
    /// ```
    #[must_use]
    pub fn skip_if(mut self, skip: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.plan_mut().exempt.push(skip);
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
        plan.traffic = Arc::new(Traffic::new(&plan.limiter, checks));
        if let Err(finding) = plan.verify() {
            panic!("{finding}");
        }
        self
    }

    /// Sets whether responses carry `RateLimit` and `RateLimit-Policy`. They do by default.
    #[must_use]
    pub fn headers(mut self, headers: bool) -> Self {
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

    /// Sets the response to denied requests, but gRPC ones. `Retry-After` and
    /// `Cache-Control: no-store` are added if it has none.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use tollgate::response::Denial;
    /// # use tollgate::{Limiter, Limits, MemoryBackend, RateLimitLayer};
    /// # let limiter = Limiter::new(Limits::default(), MemoryBackend::new());
    ///
    /// let layer = RateLimitLayer::new(limiter).on_denied(|denial: &Denial<'_>| {
    ///     let advice = match denial.retry_after_secs() {
    ///         Some(secs) => format!("slow down for {secs} s\n"),
    ///         None => "not today\n".into(),
    ///     };
    ///     let mut response = http::Response::new(Bytes::from(advice));
    ///     *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
    ///     response
    /// });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn on_denied(
        mut self,
        format: impl Fn(&Denial<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.plan_mut().responder = Responder::custom(Arc::new(format));
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
