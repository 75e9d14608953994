//! The leased limits of all limiters that share a backend.

use std::sync::{Arc, Mutex, Weak};

use arc_swap::{ArcSwap, Guard};

use crate::backend::{
    leased_limits::{LeasedLimits, LimiterId},
    sharded::lock,
};

/// The leased limits in force. They are replaced as a whole.
#[derive(Debug, Default)]
pub(super) struct LimitsInForce {
    /// Those of all limiters together.
    joined: ArcSwap<LeasedLimits>,
    /// Those of each limiter. Its lock also orders the replacements.
    of_limiters: Mutex<Vec<(Weak<()>, LeasedLimits)>>,
}

impl LimitsInForce {
    pub(super) fn read(&self) -> Guard<Arc<LeasedLimits>> {
        self.joined.load()
    }

    /// Replaces the limits of a limiter, and removes those of limiters that are gone.
    pub(super) fn replace(&self, limiter: &LimiterId, limits: LeasedLimits) {
        let limiter = limiter.downgrade();
        let mut all = lock(&self.of_limiters);
        all.retain(|(other, _)| other.strong_count() > 0 && !other.ptr_eq(&limiter));
        all.push((limiter, limits));
        let mut joined = LeasedLimits::default();
        all.iter().for_each(|(_, limits)| joined.join(limits));
        self.joined.store(Arc::new(joined));
    }
}
