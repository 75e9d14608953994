//! The methods by which a layer gets limits of its own, each in one line.

use std::sync::Arc;

use super::{layer::RateLimitLayer, own_limits::OwnLimits};
use crate::{
    backend::{Backend, MemoryBackend},
    key::KeyExtractor,
    limit::{Limit, LimitName},
    rule::{Rule, RuleError, Rules},
};

impl RateLimitLayer {
    /// A layer with one limit for each client that `extractor` finds. [`limit`](Self::limit) adds others. This layer and
    /// its clones keep their buckets in memory, and no other layer shares them.
    ///
    /// The limit is named `requests`; [`named`](Self::named) changes that. For limits from files, or a limiter that is
    /// used elsewhere too, use [`with_limiter`](Self::with_limiter).
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
        let own = OwnLimits::first(limit, extractor);
        let limiter = own.limiter(MemoryBackend::new());
        match limiter.and_then(|limiter| Self::with_limiter(limiter).follow(&own)) {
            Ok(layer) => layer.owning(own),
            Err(error) => panic!("{error}"),
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
    ///     .limit_with("writes", Limit::per_minute(30), HeaderId::new("x-account"), |rule| {
    ///         rule.only_if(methods([Method::POST, Method::PUT])).cost(2)
    ///     });
    /// # let _ = layer;
    /// ```
    ///
    /// Clones that were made before have buckets of their own.
    ///
    /// # Panics
    ///
    /// If the name is not valid, or is that of another limit of this layer; if the limit is not valid; if the extractor
    /// cannot produce ids in the name's format; or if the layer was created by [`with_limiter`](Self::with_limiter) or
    /// is already [`shared`](Self::shared).
    #[must_use]
    #[track_caller]
    pub fn limit(
        self,
        name: impl Into<LimitName>,
        limit: Limit,
        extractor: impl KeyExtractor,
    ) -> Self {
        self.limit_with(name, limit, extractor, |rule| rule)
    }

    /// Adds a limit as [`limit`](Self::limit) does, which has an example. `options` sets the options of its rule, such as
    /// the [`cost`](Rule::cost) and the [requests](Rule::only_if) that it charges.
    ///
    /// # Panics
    ///
    /// Like [`limit`](Self::limit), and if the rule does not fit, as in [`rule`](Self::rule).
    #[must_use]
    #[track_caller]
    pub fn limit_with(
        self,
        name: impl Into<LimitName>,
        limit: Limit,
        extractor: impl KeyExtractor,
        options: impl FnOnce(Rule) -> Rule,
    ) -> Self {
        match self.try_limit(name, limit, extractor, options) {
            Ok(layer) => layer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Adds a limit as [`limit_with`](Self::limit_with) does, or returns why it does not fit.
    ///
    /// # Errors
    ///
    /// In the cases in which [`limit_with`](Self::limit_with) panics.
    #[track_caller]
    pub fn try_limit(
        mut self,
        name: impl Into<LimitName>,
        limit: Limit,
        extractor: impl KeyExtractor,
        options: impl FnOnce(Rule) -> Rule,
    ) -> Result<Self, RuleError> {
        let mut own = self.own.take().ok_or(RuleError::NotOwnLimits)?;
        own.add(name.into(), limit, extractor, options);
        self.decide_in_memory(own)
    }

    /// Sets the name of the limit of [`new`](Self::new), which headers, refusals, metrics and the
    /// [`Assessment`](super::Assessment) show. A [`LimitName`] can also have an id format, a description and a link.
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
    /// If the name is not valid; if the extractor cannot produce ids in its format; or if the layer was created by
    /// [`with_limiter`](Self::with_limiter), is already [`shared`](Self::shared), or has a [`rule`](Self::rule).
    #[must_use]
    #[track_caller]
    pub fn named(mut self, name: impl Into<LimitName>) -> Self {
        let own = self.take_unbound("named").named(name.into());
        match self.decide_in_memory(own) {
            Ok(layer) => layer,
            Err(error) => panic!("{error}"),
        }
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
    /// Like [`named`](Self::named), and if the backend cannot keep the buckets of a limit ([`Backend::admits`]).
    #[must_use]
    #[track_caller]
    pub fn shared(mut self, name: impl Into<LimitName>, backend: impl Backend) -> Self {
        let own = self.take_unbound("shared").named(name.into());
        match self.decide_in(backend, &own) {
            Ok(layer) => layer,
            Err(error) => panic!("{error}"),
        }
    }

    #[track_caller]
    fn take_unbound(&mut self, method: &str) -> OwnLimits {
        match self.own.take() {
            Some(own) if own.has_only_own_rules() => own,
            _ => panic!(
                "`{method}` is for the limits of `RateLimitLayer::new` and `limit`: call it directly after them, before \
                 `rule` and at most one `shared`; the limits of `with_limiter` have their names already"
            ),
        }
    }

    fn decide_in_memory(self, own: OwnLimits) -> Result<Self, RuleError> {
        let layer = self.decide_in(MemoryBackend::new(), &own)?;
        Ok(layer.owning(own))
    }

    /// Decides by these limits alone, whose buckets are in a backend.
    fn decide_in(mut self, backend: impl Backend, own: &OwnLimits) -> Result<Self, RuleError> {
        let config = self.config_mut();
        config.limiter = own.limiter(backend)?;
        config.rules = Rules::default();
        config.policies = Vec::new();
        config.health = Arc::default();
        self.follow(own)
    }

    fn follow(mut self, own: &OwnLimits) -> Result<Self, RuleError> {
        for rule in &own.rules {
            self.add(rule.clone())?;
        }
        Ok(self)
    }

    fn owning(self, own: OwnLimits) -> Self {
        Self {
            own: Some(own),
            ..self
        }
    }
}
