//! The part of a limit that one process can use on its own.

use std::time::Duration;

use crate::{gcra::Gcra, quota::Usage, transaction::Algorithm};

/// The part of each limit that one process can use while the store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    part: u32,
    of: u32,
}

impl Share {
    pub(super) const WHOLE: Self = Self { part: 1, of: 1 };

    /// # Panics
    ///
    /// If the share is 0, or more than 1.
    #[track_caller]
    pub(super) const fn new(part: u32, of: u32) -> Self {
        assert!(
            0 < part && part <= of,
            "a share is a part of the whole: use `share(1, 4)` for a quarter"
        );
        Self { part, of }
    }

    /// Converts the usage of a whole quota to the same proportion of the share.
    pub(super) fn usage(self, whole: Usage) -> Usage {
        let used = (u64::from(whole.used) * u64::from(self.part)).div_ceil(self.of.into());
        Usage {
            used: u32::try_from(used).unwrap_or(whole.used),
            ..whole
        }
    }

    /// Returns the share of the burst, at least 1, and of the rate.
    ///
    /// An empty share takes as long to fill as the whole bucket. So the store's TAT also says how
    /// full the share is.
    pub(super) fn algorithm(self, whole: &Algorithm) -> Algorithm {
        if self == Self::WHOLE {
            return whole.clone();
        }
        let gcra = match whole {
            Algorithm::Gcra(gcra) => gcra,
            Algorithm::Tiers(tiers) => return Algorithm::Tiers(tiers.share(self.part, self.of)),
            Algorithm::Window(window) => {
                return Algorithm::Window(window.share(self.part, self.of));
            }
            Algorithm::Quota(quota) => return Algorithm::Quota(quota.share(self.part, self.of)),
        };
        let burst = u64::from(gcra.burst()) * u64::from(self.part);
        let burst = u32::try_from(burst.div_ceil(self.of.into())).unwrap_or(gcra.burst());
        let slower = gcra.period().as_micros() * u128::from(self.of);
        let period = slower
            .div_ceil(self.part.into())
            .try_into()
            .unwrap_or(u64::MAX);
        let part = Gcra::new(burst, gcra.count(), Duration::from_micros(period));
        let part = part.and_then(|part| part.with_max_wait(gcra.max_wait()));
        Algorithm::Gcra(part.unwrap_or(*gcra))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limit;

    #[test]
    fn share_is_of_the_burst_and_of_the_rate() {
        let of = |part, of, limit: Limit| {
            let algorithm = limit.algorithm().unwrap();
            let Algorithm::Gcra(gcra) = Share::new(part, of).algorithm(algorithm) else {
                panic!("it has no tiers")
            };
            (gcra.burst(), gcra.count(), gcra.period().as_micros())
        };
        let limit = Limit::per_second(10).burst(20);
        assert_eq!(of(1, 1, limit.clone()), (20, 10, 1_000_000));
        assert_eq!(of(1, 4, limit.clone()), (5, 10, 4_000_000));
        assert_eq!(of(2, 3, limit.clone()), (14, 10, 1_500_000));
        assert_eq!(of(1, 100, limit), (1, 10, 100_000_000));
    }
}
