//! Other limits while requests run.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use thiserror::Error;

use super::{Limiter, LimiterError};
use crate::{
    limit::{Limit, LimitName, Limits},
    transaction::Mode,
};

impl Limiter {
    /// Puts other limits in force, for all handles: whole, or not at all.
    ///
    /// Each decision is by the old limits or by the new ones. Buckets stay as they are, and what
    /// clients have spent counts under the new limits. Names may be added, and removed if no rule
    /// uses them.
    ///
    /// [`Reloader`](crate::reload::Reloader) does this when files change.
    ///
    /// # Errors
    ///
    /// If a rule uses a name that is gone, or has a cost that could never pass; or if a name has
    /// another number or another format of ids, so that its buckets would be lost. Then the old
    /// limits stay.
    pub fn reload(&self, limits: Limits) -> Result<(), ReloadError> {
        let mut claims = self.shared.claims.lock();
        claims.retain(|claim| claim.strong_count() > 0);
        for claim in claims.iter().filter_map(Weak::upgrade) {
            claim.check(&limits).map_err(ReloadError::Rule)?;
        }
        for was in self.shared.limits.load().iter().map(|named| &named.name) {
            match limits.get(was.as_str()).map(|named| &named.name) {
                Some(name) if name != was => {
                    let names = [was.clone(), name.clone()];
                    return Err(ReloadError::OtherKey { names });
                }
                _ => {}
            }
        }
        self.shared.limits.store(Arc::new(limits));
        Ok(())
    }

    /// Holds the limits to what a rule takes for granted, for as long as the claim is kept.
    pub(crate) fn claim(&self, claim: Claim) -> Result<Arc<Claim>, LimiterError> {
        let mut claims = self.shared.claims.lock();
        claim.check(&self.shared.limits.load())?;
        let claim = Arc::new(claim);
        claims.push(Arc::downgrade(&claim));
        Ok(claim)
    }
}

/// What a rule takes for granted: that there is a limit of this name, and that this cost can pass.
#[derive(Debug)]
pub(crate) struct Claim {
    limit: Arc<str>,
    cost: u32,
}

impl Claim {
    pub(crate) fn new(limit: Arc<str>, cost: u32, mode: Mode) -> Self {
        let is_bounded = mode != Mode::Debit;
        Self {
            limit,
            cost: if is_bounded { cost } else { 0 },
        }
    }

    pub(crate) fn check(&self, limits: &Limits) -> Result<(), LimiterError> {
        let Some(named) = limits.get(&self.limit) else {
            return Err(LimiterError::unknown_limit(&self.limit, limits));
        };
        let error = |id: Option<&str>, limit: &Limit| LimiterError::CostAboveBurst {
            limit: self.limit.to_string(),
            id: id.map(Into::into),
            cost: self.cost,
            burst: limit.max_cost(),
        };
        let defaults = named.limit.iter().map(|limit| (None, limit));
        let overrides = named.overrides().map(|own| (Some(own.id), own.limit));
        let mut all = defaults.chain(overrides);
        match all.find(|(_, limit)| limit.max_cost() < self.cost) {
            Some((id, limit)) => Err(error(id, limit)),
            None => Ok(()),
        }
    }
}

/// The claims of all rules that there are. Its lock also orders reloads.
#[derive(Default)]
pub(super) struct Claims(Mutex<Vec<Weak<Claim>>>);

impl Claims {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Claim>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why other limits are not put in force.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// A rule uses a name that is gone, or has a cost above a burst.
    #[error("a rule does not fit the new limits: {0}")]
    Rule(#[source] LimiterError),
    /// A name has another number or another format of ids.
    #[error(
        "limit `{}` is {}, and would become {}, so that its buckets would be lost: leave that, or \
         restart",
        names[0], Key(&names[0]), Key(&names[1])
    )]
    OtherKey {
        /// The name as it is, and as it would be.
        names: [LimitName; 2],
    },
}

/// Says what buckets are kept under.
struct Key<'a>(&'a LimitName);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.number() {
            Some(number) => write!(f, "number {number}")?,
            None => f.write_str("unnumbered")?,
        }
        write!(f, " with ids in the format {}", self.0.format())
    }
}
