//! Other limits while requests run.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use super::{
    Limiter, admission::fitted, limiter_error::LimiterError, reload_error::ReloadError,
    requirement::RuleRequirement,
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
    /// If a rule uses a name that has been removed or has lost its values, or has a cost that could never pass; if
    /// the number or the id format of a name has changed, because its buckets would be lost; or if the backend cannot
    /// keep the buckets of a limit ([`Backend::admits`](crate::backend::Backend::admits)). The old limits then stay in force.
    pub fn reload(&self, limits: Limits) -> Result<(), ReloadError> {
        let reloaded = self.put_in_force(limits);
        metrics::reloaded(match reloaded {
            Ok(()) => "applied",
            Err(_) => "refused",
        });
        reloaded
    }

    fn put_in_force(&self, limits: Limits) -> Result<(), ReloadError> {
        let limits = fitted(limits, &*self.shared.backend)?;
        let claims = self.shared.claims.lock();
        let before = self.shared.limits.load();
        for claim in claims.iter().filter_map(Weak::upgrade) {
            claim.check_presence(&before, &limits)?;
            claim.check(&limits).map_err(ReloadError::Rule)?;
            claim.check_against(&before, &limits)?;
            claim.warn(&limits);
        }
        keeps_buckets(&before, &limits)?;
        limits.begin_counters();
        self.shared.limits.store(Arc::new(limits));
        Ok(())
    }

    /// Holds the limits to what a rule takes for granted, for as long as the claim is kept.
    pub(crate) fn claim(
        &self,
        claim: RuleRequirement,
    ) -> Result<Arc<RuleRequirement>, LimiterError> {
        let mut claims = self.shared.claims.lock();
        let limits = self.shared.limits.load();
        claim.check(&limits)?;
        claim.warn(&limits);
        // Whenever there is no more room, those of dropped layers make some.
        if claims.len() == claims.capacity() {
            claims.retain(|claim| claim.strong_count() > 0);
        }
        let claim = Arc::new(claim);
        claims.push(Arc::downgrade(&claim));
        Ok(claim)
    }
}

/// Refuses limits by which what is kept under a name or a number would be lost, or read wrongly.
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
