//! The leased limits of all limiters that share a backend.

use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use crate::backend::leased_limits::{LeasedLimits, LimiterId};

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
        let mut all = self.of_limiters.lock();
        all.retain(|(other, _)| other.strong_count() > 0 && !other.ptr_eq(&limiter));
        all.push((limiter, limits));
        let mut joined = LeasedLimits::default();
        all.iter().for_each(|(_, limits)| joined.join(limits));
        self.joined.store(Arc::new(joined));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::LeaseShare,
        transaction::{Algorithm, LimitKey},
    };

    const KEYS: [LimitKey<'_>; 3] = [
        LimitKey::Name("a"),
        LimitKey::Name("b"),
        LimitKey::Number(7),
    ];

    fn algorithm(burst: u32) -> Algorithm {
        let limit = crate::Limit::per_second(1).burst(burst);
        limit.algorithm().unwrap().clone()
    }

    fn limits(all: &[(LimitKey<'_>, u32)]) -> LeasedLimits {
        let mut limits = LeasedLimits::default();
        for (key, percent) in all {
            let share = LeaseShare::new(*percent, 100);
            limits.add(*key, share, [algorithm(*percent)].iter());
        }
        limits
    }

    fn percents(in_force: &LimitsInForce) -> [Option<u32>; 3] {
        let limits = in_force.read();
        KEYS.map(|key| Some(limits.get(key)?.share().of(100)))
    }

    #[test]
    fn limiters_replace_their_own_limits_and_leave_those_of_others() {
        let [a, b, seven] = KEYS;
        let in_force = LimitsInForce::default();
        let (first, second) = (LimiterId::default(), LimiterId::default());
        in_force.replace(&first, limits(&[(a, 5), (seven, 1)]));
        in_force.replace(&second, limits(&[(b, 2)]));
        assert_eq!(percents(&in_force), [Some(5), Some(2), Some(1)]);
        in_force.replace(&first, limits(&[(seven, 3)]));
        assert_eq!(percents(&in_force), [None, Some(2), Some(3)]);
        drop(first);
        in_force.replace(&second, limits(&[(a, 4)]));
        assert_eq!(percents(&in_force), [Some(4), None, None]);
    }
}
