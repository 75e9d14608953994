use std::{sync::Arc, time::Duration};

use http::request::Parts;
use tower_layer::Layer;

use super::{config::Config, service::RateLimit};
use crate::{
    backend::{Backend, MemoryBackend},
    key::KeyExtractor,
    limit::{Limit, LimitName, Limits, LimitsError},
    limiter::Limiter,
    response::{Headers, ResponseFormat},
    rule::{Conditions, Rule},
};

/// The name of the first limit of a layer with limits of its own.
const NAME: &str = "requests";

/// A tower layer that limits the requests to the services it wraps.
///
/// The type is not generic, so it can be named in a struct or a signature. It is cheap to clone. All services wrapped
/// by a layer and its clones share the limiter's buckets.
///
/// See the [module docs](crate::layer) for an example.
#[derive(Clone, Debug)]
pub struct RateLimitLayer {
    config: Arc<Config>,
    /// The layer's own limits, as long as others can be added to them.
    own: Option<OwnLimits>,
}

/// The own limits of a layer, and its rules.
#[derive(Clone, Debug, Default)]
struct OwnLimits {
    limits: Vec<(LimitName, Limit)>,
    rules: Vec<Rule>,
}

impl RateLimitLayer {
    /// A layer with one limit for each client that `extractor` finds. [`limit`](Self::limit) adds others. This layer and
    /// its clones keep their buckets in memory, and no other layer shares them.
    ///
    /// The limit is named `requests`. For limits from files, or for a limiter that is also used elsewhere, use
    /// [`with_limiter`](Self::with_limiter).
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
    /// If the extractor cannot produce ids in the format [`Opaque`](crate::id::IdFormat::Opaque). All extractors of
    /// this crate can.
    #[must_use]
    #[track_caller]
    pub fn new(limit: Limit, extractor: impl KeyExtractor) -> Self {
        let without = Self {
            own: Some(OwnLimits::default()),
            ..Self::with_limiter(Limiter::new(Limits::default(), MemoryBackend::new()))
        };
        without.limit(NAME, limit, extractor)
    }

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
        Self {
            config: Arc::new(Config::new(limiter)),
            own: None,
        }
    }

    /// Adds a limit, and the rule that charges each request of the clients that `extractor` finds. A request is charged
    /// by all limits or, if one of them denies it, by none.
    ///
    /// ```
    /// use http::Method;
    /// use tollgate::{ClientIp, Limit, RateLimitLayer, key::HeaderId, rule::methods};
    ///
    /// let layer = RateLimitLayer::new(Limit::per_second(10).burst(20), ClientIp::peer())
    ///     .limit("accounts", Limit::per_minute(300), HeaderId::new("x-account"))
    ///     .limit("writes", Limit::per_minute(30), HeaderId::new("x-account"))
    ///     .with_rule(|rule| rule.only_if(methods([Method::POST, Method::PUT])).cost(2));
    /// # let _ = layer;
    /// ```
    ///
    /// Earlier clones of the layer keep buckets of their own.
    ///
    /// # Panics
    ///
    /// If the name is not valid, or is that of another limit of this layer; if the limit is not valid; if the extractor
    /// cannot produce ids in the name's format; or if the layer was created by [`with_limiter`](Self::with_limiter) or
    /// is already [`shared`](Self::shared).
    #[must_use]
    #[track_caller]
    pub fn limit(
        mut self,
        name: impl Into<LimitName>,
        limit: Limit,
        extractor: impl KeyExtractor,
    ) -> Self {
        let name = name.into();
        let mut own = self.take_own("limit");
        own.rules.push(Rule::new(Arc::clone(&name.name), extractor));
        own.limits.push((name, limit));
        self.decide_by(own)
    }

    /// Sets the options of the preceding limit's rule, such as its [`cost`](Rule::cost) and the [requests](Rule::only_if) that it
    /// charges.
    ///
    /// ```
    /// use tollgate::{ClientIp, Limit, RateLimitLayer};
    ///
    /// // Only failed requests count.
    /// let layer = RateLimitLayer::new(Limit::per_minute(10), ClientIp::peer())
    ///     .with_rule(|rule| rule.refund_if(|ending| !ending.failed()));
    /// # let _ = layer;
    /// ```
    ///
    /// # Panics
    ///
    /// If the rule does not fit, as in [`rule`](Self::rule); or if the layer was created by [`with_limiter`](Self::with_limiter) or
    /// is already [`shared`](Self::shared).
    #[must_use]
    #[track_caller]
    pub fn with_rule(mut self, options: impl FnOnce(Rule) -> Rule) -> Self {
        let mut own = self.take_own("with_rule");
        if let Some(rule) = own.rules.pop() {
            own.rules.push(options(rule));
        }
        self.decide_by(own)
    }

    /// Keeps the buckets in a backend, with this name for the limit of [`new`](Self::new). Layers in the same store share
    /// the buckets of limits with the same name, and should have the same values for it.
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
    /// If the name is not valid; if the extractor cannot produce ids in its format; if the layer was created by
    /// [`with_limiter`](Self::with_limiter) or is already shared; or if the backend cannot keep the buckets of a limit
    /// ([`Backend::admits`]).
    #[must_use]
    #[track_caller]
    pub fn shared(mut self, name: impl Into<LimitName>, backend: impl Backend) -> Self {
        let name = name.into();
        let mut own = self.take_own("shared");
        if let (Some(rule), Some((first, _))) = (own.rules.first_mut(), own.limits.first_mut()) {
            *rule = rule.clone().of_limit(Arc::clone(&name.name));
            *first = name;
        }
        self.decide_in(backend, &own);
        self
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
        valid(self.try_rule(rule))
    }

    /// Adds a rule, or returns why it does not fit.
    ///
    /// # Errors
    ///
    /// In the cases in which [`rule`](Self::rule) panics.
    pub fn try_rule(mut self, rule: Rule) -> Result<Self, LimitsError> {
        if let Some(own) = &mut self.own {
            own.rules.push(rule.clone());
        }
        self.config_mut().add_rule(rule)?;
        Ok(self)
    }

    /// Exempts requests for which the condition holds from all rules. They are not charged. If called several times, any of the
    /// conditions is enough. For a disguised path, the condition is evaluated twice, as for [`Rule::skip_if`].
    ///
    /// ```
    /// use tollgate::{ClientIp, Limit, RateLimitLayer};
    ///
    /// let ours = ClientIp::peer().within(["10.0.0.0/8", "fd00::/8"])?;
    /// let layer = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer()).skip_if(ours);
    /// # let _ = layer;
    /// # Ok::<_, tollgate::key::ProxiesError>(())
    /// ```
    #[must_use]
    pub fn skip_if(mut self, skip: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
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
    /// # Ok::<_, tollgate::key::ProxiesError>(())
    /// ```
    #[must_use]
    pub fn deny_if(
        mut self,
        list: &str,
        denied: impl Fn(&Parts) -> bool + Send + Sync + 'static,
    ) -> Self {
        let mut conditions = Conditions::default();
        conditions.push(Arc::new(denied));
        self.config_mut().listed.push((list.into(), conditions));
        self
    }

    /// Sets the headers that show how much is left. The default is [`Headers::Draft11`].
    #[must_use]
    pub fn headers(mut self, headers: Headers) -> Self {
        self.config_mut().headers = headers;
        self
    }

    /// Sets whether requests get an [`Assessment`](super::Assessment) extension, for handlers that look at the decisions, settle or
    /// refund charges, or keep permits. By default, they do not.
    ///
    /// All requests that the layer lets through get one, even if no rule charges them.
    #[must_use]
    pub fn extensions(mut self, extensions: bool) -> Self {
        self.config_mut().extends = extensions;
        self
    }

    /// Sets the format of refusals, except for gRPC requests. The default is [`Problem`](crate::response::Problem).
    ///
    /// A closure that returns a `Response<Bytes>` is a format, too: [`ResponseFormat`] has an example.
    ///
    /// ```
    /// use tollgate::{ClientIp, Limit, RateLimitLayer, response::PlainText};
    ///
    /// let layer = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer()).respond_with(PlainText);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn respond_with(mut self, format: impl ResponseFormat) -> Self {
        self.config_mut().responder.format = Arc::new(format);
        self
    }

    /// Sets whether gRPC requests are refused with HTTP 200 and a `grpc-status`, as they are by default. A request is one of gRPC
    /// if it is `POST` with the content type of gRPC or of gRPC-Web, over any version of HTTP.
    ///
    /// Turn it off behind a proxy that asks this server over HTTP whether to admit a request: nginx's `auth_request`, Traefik's
    /// `ForwardAuth`, Envoy's `ext_authz` over HTTP. Such a proxy would treat the status 200 as approval.
    #[must_use]
    pub fn grpc(mut self, grpc: bool) -> Self {
        self.config_mut().responder.speaks_grpc = grpc;
        self
    }

    /// Adds a random time of up to `jitter` to each refused client's wait, so that clients who were refused together
    /// do not return together. There is no jitter by default.
    #[must_use]
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.config_mut().responder.jitter = jitter;
        self
    }

    #[track_caller]
    fn take_own(&mut self, method: &str) -> OwnLimits {
        match self.own.take() {
            Some(own) => own,
            None => panic!(
                "`{method}` is for the limits of `RateLimitLayer::new`, before `shared`: otherwise, add the limit to the \
                 limiter's `Limits`, and a `rule` to the layer"
            ),
        }
    }

    /// Decides by these limits alone, with buckets in memory that no other layer shares.
    #[track_caller]
    fn decide_by(mut self, own: OwnLimits) -> Self {
        self.decide_in(MemoryBackend::new(), &own);
        self.own = Some(own);
        self
    }

    /// Decides by these limits alone, with buckets in this backend.
    #[track_caller]
    fn decide_in(&mut self, backend: impl Backend, own: &OwnLimits) {
        let limits = own.limits.iter().cloned();
        let limits = limits.fold(Limits::builder(), |all, (name, limit)| {
            all.limit(name, limit)
        });
        let limits = limits.build();
        let limiter = valid(limits.and_then(|limits| Limiter::try_new(limits, backend)));
        let new = Config::new(limiter);
        let config = self.config_mut();
        config.limiter = new.limiter;
        config.active = new.active;
        for rule in &own.rules {
            valid(config.add_rule(rule.clone()));
        }
    }

    fn config_mut(&mut self) -> &mut Config {
        Arc::make_mut(&mut self.config)
    }
}

#[track_caller]
fn valid<T>(result: Result<T, LimitsError>) -> T {
    match result {
        Ok(valid) => valid,
        Err(error) => panic!("{error}"),
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        let config = &self.config;
        let is_idle = config.rules().iter().len() == 0 && config.listed.is_empty();
        config.checks.built(config.rules(), is_idle);
        RateLimit::new(inner, Arc::clone(config))
    }
}
