use std::{sync::Arc, time::Duration};

use tower_layer::Layer;

use super::{
    config::{DenyList, LayerConfig},
    line::WaitingRoom,
    one_limit::OneLimit,
    service::RateLimit,
    traffic::Traffic,
};
use crate::{
    backend::Backend,
    check::Checks,
    key::{KeyExtractor, Predicate},
    limit::{Limit, LimitName},
    limiter::Limiter,
    response::{Grpc, Headers, IntoFormat, Policy, Responder},
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
    /// The limit that can still get another name, or another backend.
    one_limit: Option<OneLimit>,
}

impl RateLimitLayer {
    /// A layer with one limit, for each client that `extractor` finds. Its buckets are in the memory of this layer and its
    /// clones, and no other layer shares them.
    ///
    /// The limit is named `requests`, unless [`named`](Self::named) says otherwise. For several limits, for limits from
    /// files and for a limiter that is used elsewhere too, there is [`with_limiter`](Self::with_limiter).
    ///
    /// ```
    /// use tollgate::{ClientIp, Limit, RateLimitLayer};
    ///
    /// let layer = RateLimitLayer::new(Limit::per_second(10).burst(20), ClientIp::peer());
    /// # let _ = layer;
    /// ```
    ///
    /// # Panics
    ///
    /// If the extractor finds no ids of the format [`Opaque`](crate::id::IdFormat::Opaque). Those of this crate do.
    #[must_use]
    #[track_caller]
    pub fn new(limit: Limit, extractor: impl KeyExtractor) -> Self {
        let one_limit = OneLimit::new(limit, extractor);
        let mut layer = Self::with_limiter(one_limit.in_memory());
        layer.add_own(one_limit.rule());
        layer.one_limit = Some(one_limit);
        layer
    }

    /// A layer that decides by a limiter. It has no rules yet, and lets everything pass.
    #[must_use]
    pub fn with_limiter(limiter: Limiter) -> Self {
        let plan = LayerConfig {
            traffic: Arc::new(Traffic::new(Checks::new())),
            limiter,
            rules: Rules::default(),
            policies: Vec::new(),
            responder: Responder::default(),
            headers: Headers::default(),
            request_extension: true,
            response_extension: false,
            exempt: Predicates::default(),
            listed: Vec::new(),
            settles: false,
            room: Arc::default(),
            health: Arc::default(),
        };
        Self {
            plan: Arc::new(plan),
            one_limit: None,
        }
    }

    /// Names the limit of [`new`](Self::new), as headers, refusals, metrics and the
    /// [`Assessment`](super::Assessment) show it. A [`LimitName`] may also have a format of ids, a description and a link.
    ///
    /// ```
    /// use tollgate::{ClientIp, Limit, RateLimitLayer};
    ///
    /// let layer = RateLimitLayer::new(Limit::per_minute(5), ClientIp::peer()).named("logins");
    /// # let _ = layer;
    /// ```
    ///
    /// # Panics
    ///
    /// If the name is not valid, if the extractor finds no ids in its format, or if the layer was made by
    /// [`with_limiter`](Self::with_limiter), is [`shared`](Self::shared) or has got another rule.
    #[must_use]
    #[track_caller]
    pub fn named(mut self, name: impl Into<LimitName>) -> Self {
        let one_limit = self.take_one_limit("named").named(name.into());
        self.decide_by(one_limit.in_memory(), one_limit.rule());
        self.one_limit = Some(one_limit);
        self
    }

    /// Keeps the buckets of the limit of [`new`](Self::new) in a backend, under this name. All layers that have the same
    /// name in the same store share their buckets, and should have the same limit.
    ///
    /// ```no_run
    /// use tollgate::{ClientIp, Limit, RateLimitLayer};
    /// # #[cfg(feature = "redis")] {
    /// use tollgate::RedisBackend;
    ///
    /// let redis = RedisBackend::new("redis://127.0.0.1:6379")?;
    /// let layer = RateLimitLayer::new(Limit::per_minute(5), ClientIp::peer()).shared("logins", redis);
    /// # let _ = layer; }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// As [`named`](Self::named), and if the backend cannot keep the buckets of the limit ([`Backend::admits`]).
    #[must_use]
    #[track_caller]
    pub fn shared(mut self, name: impl Into<LimitName>, backend: impl Backend) -> Self {
        let one_limit = self.take_one_limit("shared").named(name.into());
        self.decide_by(one_limit.limiter(backend), one_limit.rule());
        self
    }

    /// The limiter that decides, for example to [reset](Limiter::reset) a client's bucket.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.plan.limiter
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
        self.add(rule)?;
        // Its rules are bound to its limiter from now on.
        self.one_limit = None;
        Ok(self)
    }

    /// Lets requests for which this is true pass, whatever the rules say, and charges them nothing. Any of several is
    /// enough. A path in disguise is asked about twice, as by [`Rule::skip_if`].
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
        self.plan_mut().exempt.push(Arc::new(skip));
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
    /// use tollgate::{ClientIp, Limit, RateLimitLayer};
    ///
    /// let abusers = ClientIp::peer().within(["192.0.2.0/24", "2001:db8:bad::/48"])?;
    /// let layer = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer()).deny_if("abusers", abusers);
    /// # let _ = layer;
    /// # Ok::<_, tollgate::key::RangeError>(())
    /// ```
    #[must_use]
    pub fn deny_if(mut self, list: &str, predicate: impl Predicate) -> Self {
        self.plan_mut().listed.push(DenyList {
            name: list.into(),
            predicate: Arc::new(predicate),
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

    /// Sets whether requests carry an [`Assessment`](super::Assessment) among their extensions, for handlers. They do by
    /// default.
    #[must_use]
    pub fn extensions(mut self, extensions: bool) -> Self {
        self.plan_mut().request_extension = extensions;
        self
    }

    /// Sets whether responses carry an [`Assessment`](super::Assessment) among their extensions, for layers outside of this
    /// one. They do not by default. If nested layers do this, that of the innermost is kept, which has the others' decisions
    /// as far as the request carries them.
    #[must_use]
    pub fn response_extension(mut self, response_extension: bool) -> Self {
        self.plan_mut().response_extension = response_extension;
        self
    }

    /// Sets how refusals look, but those of gRPC requests. It is [`Problem`](crate::response::Problem) by default.
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
        self.plan_mut().responder.format = Arc::new(format.into_format());
        self
    }

    /// Sets which requests are refused as gRPC is. It is [`Grpc::Auto`] by default.
    ///
    /// Whatever is set, [`Ending::status`](crate::rule::Ending::status) of a refusal is the status that stands for its
    /// reason.
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

    /// Sets how many requests may wait in line at once, on limits with [`max_wait`](Limit::max_wait); 10,000 if not set.
    /// Further ones are refused as if their rules said [`no_wait`](Rule::no_wait). With 0, nobody waits.
    ///
    /// Clones of the layer count together, and so do all services that they wrap. See the [module docs](crate::layer) for
    /// what a waiting request holds.
    #[must_use]
    pub fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.plan_mut().room = Arc::new(WaitingRoom::new(max_waiting));
        self
    }

    #[track_caller]
    fn take_one_limit(&mut self, method: &str) -> OneLimit {
        self.one_limit.take().unwrap_or_else(|| {
            panic!(
                "`{method}` is for the limit of `RateLimitLayer::new`: call it directly after that, before `rule` and \
                 at most one `shared`; the limits of `with_limiter` have their names already"
            )
        })
    }

    /// Decides by another limiter, with its one rule.
    #[track_caller]
    fn decide_by(&mut self, limiter: Limiter, rule: Rule) {
        let plan = self.plan_mut();
        plan.limiter = limiter;
        plan.rules = Rules::default();
        plan.policies = Vec::new();
        plan.health = Arc::default();
        self.add_own(rule);
    }

    #[track_caller]
    fn add_own(&mut self, rule: Rule) {
        if let Err(error) = self.add(rule) {
            panic!("{error}");
        }
    }

    fn add(&mut self, rule: Rule) -> Result<(), RuleError> {
        let plan = self.plan_mut();
        plan.rules.push(rule, &plan.limiter)?;
        plan.policies
            .resize_with(plan.rules.targets(), Policy::default);
        plan.settles = plan.rules.wait_for_endings();
        // Those of a clone have other places.
        plan.traffic = Arc::new(Traffic::new(plan.traffic.checks()));
        plan.refused()
            .map_or(Ok(()), |finding| Err(RuleError::Check(finding)))
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
