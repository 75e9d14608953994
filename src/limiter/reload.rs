//! Reloading of limits while requests run.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use super::{
    Limiter,
    backend_support::{admit, lease},
    limiter_error::LimiterError,
    reload_error::ReloadError,
    requirement::RuleUse,
};
use crate::{
    limit::{LimitName, Limits},
    metrics,
};

impl Limiter {
    /// Replaces the limits, for all clones of this limiter. The new limits take effect completely or not at all.
    ///
    /// Each decision uses either the old limits or the new ones. Buckets are kept: what clients have spent counts
    /// under the new limits. Names can be added, and names that no rule uses can be removed. A
    /// bucket whose limit changes to another [algorithm](crate::transaction::Algorithm) starts fresh.
    ///
    /// [`Reloader`](crate::reload::Reloader) calls this when files change.
    ///
    /// # Errors
    ///
    /// If a rule uses a name that has been removed or has lost its values, or has a cost that could never pass; if the
    /// number or the id format of a name has changed, because its buckets would be lost; or if the backend cannot keep
    /// the buckets of a limit ([`Backend::admits`](crate::backend::Backend::admits)). The old limits then stay in
    /// force.
    pub fn reload(&self, limits: Limits) -> Result<(), ReloadError> {
        let reloaded = self.put_in_force(limits);
        metrics::reloaded(match reloaded {
            Ok(()) => "applied",
            Err(_) => "refused",
        });
        reloaded
    }

    /// Returns whether a rule of a layer can find [secret](crate::id::Id::secret) ids for a limit, as those of
    /// [`HeaderId`](crate::key::HeaderId) do. Tools for administrators should then show hashes, like events and refusals.
    ///
    /// It looks at all rules: meant for such tools, not for each request.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, key::HeaderId};
    ///
    /// let limits = Limits::builder().limit("requests", Limit::per_second(10)).build()?;
    /// let limiter = Limiter::new(limits, MemoryBackend::new());
    /// let rule = Rule::new("requests", HeaderId::new("x-api-key"));
    /// let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    /// assert!(limiter.has_secret_ids("requests"));
    /// # drop(layer); Ok::<_, tollgate::limit::LimitsError>(())
    /// ```
    #[must_use]
    pub fn has_secret_ids(&self, limit: &str) -> bool {
        let claims = self.shared.claims.lock();
        let mut claims = claims.iter().filter_map(Weak::upgrade);
        claims.any(|claim| claim.has_secrets_of(limit))
    }

    fn put_in_force(&self, limits: Limits) -> Result<(), ReloadError> {
        let backend = &self.shared.backend;
        admit(&limits, backend)?;
        let claims = self.shared.claims.lock();
        let before = self.in_force();
        for claim in claims.iter().filter_map(Weak::upgrade) {
            claim.check_presence(&before, &limits)?;
            claim
                .check(&limits, &**backend)
                .map_err(ReloadError::Rule)?;
            claim.check_against(&before, &limits)?;
            claim.warn(&limits);
        }
        keeps_buckets(&before, &limits)?;
        limits.begin_counters();
        lease(&limits, &self.shared.id, &**backend);
        self.shared.limits.replace(limits);
        #[cfg(feature = "tokio")]
        self.permits().renew_soon();
        Ok(())
    }

    /// Checks a rule's assumptions about the limits in force.
    pub(crate) fn check_claim(&self, claim: &RuleUse) -> Result<(), LimiterError> {
        claim.check(&self.in_force(), &*self.shared.backend)
    }

    /// Checks a rule's assumptions about the limits, now and on each reload for as long as the claim exists.
    pub(crate) fn claim(&self, claim: RuleUse) -> Result<Arc<RuleUse>, LimiterError> {
        let mut claims = self.shared.claims.lock();
        let limits = self.in_force();
        claim.check(&limits, &*self.shared.backend)?;
        claim.warn(&limits);
        // When the list is full, the claims of dropped layers are removed first.
        if claims.len() == claims.capacity() {
            claims.retain(|claim| claim.strong_count() > 0);
        }
        let claim = Arc::new(claim);
        claims.push(Arc::downgrade(&claim));
        Ok(claim)
    }
}

/// Rejects limits that would lose the buckets of a name or a number, or misread them.
fn keeps_buckets(before: &Limits, limits: &Limits) -> Result<(), ReloadError> {
    let by_key: HashMap<_, _> = limits
        .iter()
        .map(|named| (named.name.key(), &named.name))
        .collect();
    for was in before.iter().map(|named| &named.name) {
        let same_name = limits.get(was.as_str()).map(|named| &named.name);
        let same_key = by_key.get(&was.key()).copied();
        let keeps = |is: &LimitName| is.key() == was.key() && is.format() == was.format();
        if let Some(is) = same_name.into_iter().chain(same_key).find(|is| !keeps(is)) {
            return Err(ReloadError::OtherKey {
                was: was.clone(),
                is: is.clone(),
            });
        }
    }
    Ok(())
}
