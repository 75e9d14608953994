use std::{sync::Arc, time::Duration};

use tower_layer::Layer;

use super::{
    config::{DenyList, LayerConfig},
    own_limits::OwnLimits,
    service::RateLimit,
    traffic::TrafficChecks,
    waiting_room::WaitingRoom,
};
use crate::{
    check::Checks,
    key::Predicate,
    limiter::Limiter,
    response::{DecisionResponder, Extras, Grpc, Headers, IntoFormat, Policy, Responder},
    rule::{Predicates, Rule, RuleError, Rules},
};

/// A tower layer that limits the requests to the services it wraps.
///
/// The type is not generic, so it can be named in a struct or a signature. It is cheap to clone. All services wrapped
/// by a layer and its clones share the limiter's buckets.
///
/// See the [module docs](crate::layer) for an example.
#[derive(Clone, Debug)]
pub struct RateLimitLayer {
    pub(super) config: Arc<LayerConfig>,
    /// The layer's own limits, while others can be added.
    pub(super) own: Option<OwnLimits>,
}

impl RateLimitLayer {
    /// A layer that uses a limiter. It lets everything pass until you add a [`rule`](Self::rule).
    ///
    /// ```
    /// use http::Method;
    /// use tollgate::{ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, rule::methods};
    ///
    /// let limits = Limits::builder()
    ///     .limit("requests", Limit::per_second(10).burst(20))
    ///     .limit("writes", Limit::per_minute(30))
    ///     .build()?;
    /// let layer = RateLimitLayer::with_limiter(Limiter::new(limits, MemoryBackend::new()))
    ///     .rule(Rule::new("requests", ClientIp::peer()))
    ///     .rule(Rule::new("writes", ClientIp::peer()).only_if(methods([Method::POST, Method::PUT])));
    /// # let _ = layer;
    /// # Ok::<_, tollgate::limit::LimitsError>(())
    /// ```
    #[must_use]
    pub fn with_limiter(limiter: Limiter) -> Self {
        let config = LayerConfig {
            traffic: Arc::new(TrafficChecks::new(Checks::new())),
            limiter,
            rules: Rules::default(),
            policies: Vec::new(),
            responder: Responder::default(),
            headers: Headers::default(),
            request_extension: false,
            response_extension: false,
            exempt: Predicates::default(),
            listed: Vec::new(),
            settles: false,
            room: Arc::default(),
            health: Arc::default(),
        };
        Self {
            config: Arc::new(config),
            own: None,
        }
    }

    /// The limiter of this layer, for example to [reset](Limiter::reset) a client's bucket.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.config.limiter
    }

    /// Adds a rule. A request is charged by all rules of a layer or, if one of them denies it, by none.
    ///
    /// # Panics
    ///
    /// If no limit has the rule's name; if its extractor cannot produce ids in the limit's format; if its cost, alone
    /// or together with the limit's other rules, is above the limit's burst or the burst of an override; or if the
    /// limit's other rules have another mode.
    #[must_use]
    #[track_caller]
    pub fn rule(self, rule: Rule) -> Self {
        match self.try_rule(rule) {
            Ok(layer) => layer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Adds a rule, or returns why it does not fit.
    ///
    /// # Errors
    ///
    /// In the cases in which [`rule`](Self::rule) panics.
    pub fn try_rule(mut self, rule: Rule) -> Result<Self, RuleError> {
        if let Some(own) = &mut self.own {
            own.rules.push(rule.clone());
        }
        self.add(rule)?;
        Ok(self)
    }

    /// Exempts requests for which the condition holds from all rules. They are not charged. If called several times,
    /// any of the conditions is enough. For a disguised path, the condition is evaluated twice, as in
    /// [`Rule::skip_if`].
    ///
    /// ```
    /// use tollgate::{ClientIp, Limit, RateLimitLayer};
    ///
    /// let ours = ClientIp::peer().within(["10.0.0.0/8", "fd00::/8"])?;
    /// let layer = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer()).skip_if(ours);
    /// # let _ = layer;
    /// # Ok::<_, tollgate::key::RangeError>(())
    /// ```
    #[must_use]
    pub fn skip_if(mut self, skip: impl Predicate) -> Self {
        self.config_mut().exempt.push(Arc::new(skip));
        self
    }

    /// Refuses requests for which the condition holds with 403, before the rules are evaluated. The response contains
    /// the name of the list. Requests that [`skip_if`](Self::skip_if) exempts are not refused.
    ///
    /// A request with a disguised path (see [`paths`](crate::rule::paths)) is also refused if the condition holds for
    /// the path that a router may resolve it to.
    ///
    /// To block one client of one limit, use an override with [`Limit::BLOCKED`](crate::Limit::BLOCKED).
    ///
    /// ```
    /// use tollgate::{ClientIp, Limit, RateLimitLayer};
    ///
    /// let abusers = ClientIp::peer().within(["192.0.2.0/24", "2001:db8:bad::/48"])?;
    /// let layer = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer()).deny_if("abusers", abusers);
    /// # let _ = layer;
    /// # Ok::<_, tollgate::key::RangeError>(())
    /// ```
    #[must_use]
    pub fn deny_if(mut self, list: &str, predicate: impl Predicate) -> Self {
        self.config_mut().listed.push(DenyList {
            name: list.into(),
            predicate: Arc::new(predicate),
        });
        self
    }

    /// Sets which mistakes to look for, and whether they are errors. See [`check`](crate::check).
    ///
    /// # Panics
    ///
    /// If the checks are strict and find a mistake in the existing rules.
    #[must_use]
    #[track_caller]
    pub fn checks(mut self, checks: Checks) -> Self {
        let config = self.config_mut();
        config.traffic = Arc::new(TrafficChecks::new(checks));
        if let Some(finding) = config.refused() {
            panic!("{finding}");
        }
        self
    }

    /// Sets the headers that show how much is left. The default is [`Headers::Draft11`].
    #[must_use]
    pub fn headers(mut self, headers: Headers) -> Self {
        self.config_mut().headers = headers;
        self
    }

    /// Sets whether requests get an [`Assessment`](super::Assessment) extension, for handlers that look at the decisions, settle
    /// or refund charges, or keep permits. They do not by default.
    ///
    /// All requests that the layer lets through get one, also those that no rule charges.
    #[must_use]
    pub fn extensions(mut self, extensions: bool) -> Self {
        self.config_mut().request_extension = extensions;
        self
    }

    /// Sets whether responses get an [`Assessment`](super::Assessment) extension, for outer layers. They do not by
    /// default. If several nested layers do this, the innermost assessment is kept. It also contains the decisions of
    /// the outer layers that put theirs into the request.
    #[must_use]
    pub fn response_extension(mut self, response_extension: bool) -> Self {
        self.config_mut().response_extension = response_extension;
        self
    }

    /// Sets the format of refusals, except for gRPC requests. The default is [`Problem`](crate::response::Problem).
    ///
    /// A closure returns a `Response<Bytes>` or, with the feature `axum`, anything that implements axum's `IntoResponse`
    /// and has its whole body at once: a stream is left out.
    ///
    /// ```
    /// use tollgate::{ClientIp, Limit, RateLimitLayer, response::PlainText};
    ///
    /// let layer = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer()).respond_with(PlainText);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn respond_with<Kind>(mut self, format: impl IntoFormat<Kind>) -> Self {
        self.config_mut().responder.format = Arc::new(format.into_format());
        self
    }

    /// Sets which requests are refused with a gRPC status. The default is [`Grpc::Auto`].
    ///
    /// In each case, [`RequestEnd::status`](crate::rule::RequestEnd::status) of a refusal is the HTTP status for its reason.
    ///
    /// ```
    /// use tollgate::{ClientIp, Limit, RateLimitLayer, response::Grpc};
    ///
    /// // nginx asks this server by `auth_request`, and takes 200 for a yes.
    /// let layer = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer()).grpc(Grpc::Never);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn grpc(mut self, grpc: Grpc) -> Self {
        self.config_mut().responder.grpc = grpc;
        self
    }

    /// Returns the settings of this layer's responses, for handlers that decide by themselves with a
    /// [`LimitHandle`](crate::limiter::LimitHandle). Call it after the other setters.
    #[must_use]
    pub fn responder(&self) -> DecisionResponder {
        DecisionResponder::new(self.config.responder.clone(), self.config.headers)
    }

    /// Adds a random time of up to `jitter` to each refused client's wait, so that clients who were refused together
    /// do not return together. There is no jitter by default.
    #[must_use]
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.extras_mut().jitter = jitter;
        self
    }

    /// Sets whether each refusal has a reference: a short random text by which a client can ask, and an operator can find the
    /// answer. It is off by default.
    ///
    /// The reference is in problem documents and the registry's JSON, as `refusal-id`, in plain text, in the `RequestInfo` of
    /// gRPC details (with the feature `tonic`), and in [`Refusal::id`](crate::response::Refusal::id) for other formats. Each
    /// refusal is also an event `refused` of level `DEBUG` with the reference, the reason, the limit and the client, for each
    /// limit that refuses the request. The reference is recorded on the request's span as `rate_limiting.refusal_id`. The guide
    /// describes [how to answer a client](crate::guide::why_denied).
    ///
    /// ```
    /// use tollgate::{ClientIp, Limit, RateLimitLayer};
    ///
    /// let layer = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer()).refusal_ids(true);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn refusal_ids(mut self, refusal_ids: bool) -> Self {
        self.extras_mut().refusal_ids = refusal_ids;
        self
    }

    /// Sets how long a client should wait that a [concurrency limit](crate::Limit::concurrent) refuses, because nobody knows
    /// when a permit comes back. The default is 1 s. [`jitter`](Self::jitter) adds to it.
    #[must_use]
    pub fn retry_permits_after(mut self, wait: Duration) -> Self {
        self.config_mut().responder.for_permits = wait;
        self
    }

    /// Sets how many requests can wait in line at once, on limits with [`max_wait`](crate::Limit::max_wait). The default is
    /// 10,000. Further requests are decided as with [`no_wait`](Rule::no_wait): they are refused if they would have to
    /// wait. With 0, no request waits. Requests that a store is deciding count too, if they may have to wait.
    ///
    /// The bound applies to all clones of the layer, and to all services that they wrap. The [module
    /// docs](crate::layer) describe what a waiting request holds.
    #[must_use]
    pub fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.config_mut().room = Arc::new(WaitingRoom::new(max_waiting));
        self
    }

    pub(super) fn add(&mut self, rule: Rule) -> Result<(), RuleError> {
        let config = self.config_mut();
        config.rules.push(rule, &config.limiter)?;
        let added = config.rules.shown_limits().skip(config.policies.len());
        config.policies.extend(added.map(|shown| match shown {
            Some((limit, mode)) => Policy::new(limit, mode.votes()),
            None => Policy::hidden(),
        }));
        config.settles = config.rules.wait_for_endings();
        // A clone's counters are for other rules.
        config.traffic = Arc::new(TrafficChecks::new(config.traffic.checks()));
        config
            .refused()
            .map_or(Ok(()), |finding| Err(RuleError::Check(finding)))
    }

    fn extras_mut(&mut self) -> &mut Extras {
        let responder = &mut self.config_mut().responder;
        responder.extras.get_or_insert_default()
    }

    pub(super) fn config_mut(&mut self) -> &mut LayerConfig {
        Arc::make_mut(&mut self.config)
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        if self.config.rules.is_empty() && self.config.listed.is_empty() {
            self.config.health.idle();
        }
        if let Some(finding) = self.config.mistake() {
            self.config.traffic.report(&finding);
        }
        RateLimit::new(inner, Arc::clone(&self.config))
    }
}
