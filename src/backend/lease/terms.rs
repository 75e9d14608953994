//! Splits a burst or a quota between the processes and the store.

use std::num::NonZeroU32;

use crate::{
    backend::{LeaseTerms, UnsupportedLimit},
    transaction::{Algorithm, LeaseShare, Member},
};

/// The split of one limit.
#[derive(Clone, Debug)]
pub(super) struct LimitSplit {
    /// The limit that the store decides with.
    pub(super) at_store: Algorithm,
    /// The most unspent units that each process can hold.
    pub(super) units: u32,
    /// The part of the burst or the quota that is reserved for all processes.
    pub(super) reserved: u32,
}

impl LimitSplit {
    /// Splits the limit of a member, if it has leases.
    pub(super) fn of(member: &Member<'_>, processes: NonZeroU32) -> Option<Self> {
        let (share, whole) = (member.lease?, member.algorithm);
        let units = units(whole.divisible().ok()?, share, processes);
        let reserved = units * processes.get();
        let at_store = whole.with_most(whole.max_cost() - reserved)?;
        (units > 0).then_some(Self {
            at_store,
            units,
            reserved,
        })
    }
}

/// Returns the terms of a limit. If the fleet has grown too large for it since the `first` number of processes, it works
/// without leases. That is no mistake in the limits, so it does not reject a reload of them.
pub(super) fn terms_in_force(
    algorithm: &Algorithm,
    share: LeaseShare,
    processes: NonZeroU32,
    first: NonZeroU32,
) -> Result<LeaseTerms, UnsupportedLimit> {
    terms(algorithm, share, processes).or_else(|error| {
        let was_leased = terms(algorithm, share, first).is_ok();
        let without = was_leased.then(|| LeaseTerms::new(0, algorithm.max_cost()));
        without.ok_or(error)
    })
}

/// Returns the terms of a limit for a number of processes.
fn terms(
    algorithm: &Algorithm,
    share: LeaseShare,
    processes: NonZeroU32,
) -> Result<LeaseTerms, UnsupportedLimit> {
    let burst = algorithm.divisible().map_err(|reason| {
        UnsupportedLimit::new(format!(
            "{reason}: leave `lease` out, or give the limit burst, count and period, or a quota"
        ))
    })?;
    match units(burst, share, processes) {
        0 => Err(UnsupportedLimit::new(format!(
            "{share} of {burst} among {processes} processes leaves less than one unit each: leave `lease` out, or raise \
             it or the limit"
        ))),
        units => Ok(LeaseTerms::new(units, burst - processes.get() * units)),
    }
}

/// Returns the most units that each process can hold. The store keeps at least half of the burst, so that ordinary costs
/// fit into it.
fn units(burst: u32, share: LeaseShare, processes: NonZeroU32) -> u32 {
    let most = (burst - 1) / processes.get().saturating_mul(2);
    share.of(burst).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Limit,
        transaction::{BucketKey, LimitKey, Mode},
    };

    fn split(burst: u32, share: LeaseShare, processes: u32) -> Option<(u32, u32)> {
        let limit = Limit::per_second(1_000_000).burst(burst);
        let processes = NonZeroU32::new(processes).unwrap();
        let algorithm = limit.algorithm().unwrap();
        let terms = terms(algorithm, share, processes).ok();
        let key = BucketKey::new(LimitKey::Number(1), "alice");
        let member = Member {
            lease: Some(share),
            ..Member::new(key, algorithm, 1, Mode::CheckAndSpend)
        };
        let split = LimitSplit::of(&member, processes);
        let split = split.map(|split| (split.units, split.at_store.max_cost()));
        assert_eq!(split, terms.map(|terms| (terms.units, terms.burst)));
        split
    }

    #[test]
    fn what_processes_hold_and_what_is_left_are_the_burst() {
        let (twentieth, all) = (LeaseShare::new(1, 20), LeaseShare::new(1, 1));
        assert_eq!(split(1000, twentieth, 4), Some((50, 800)));
        assert_eq!(split(1000, all, 4), Some((124, 504)));
        assert_eq!(split(1000, all, 1), Some((499, 501)));
        assert_eq!(split(3, all, 1), Some((1, 2)));
        assert_eq!(split(2, all, 1), None);
        assert_eq!(split(19, twentieth, 1), None);
        assert_eq!(split(u32::MAX, all, u32::MAX), None);
        assert_eq!(
            split(u32::MAX, all, u32::MAX / 2 - 1),
            Some((1, u32::MAX / 2 + 2))
        );
    }

    #[test]
    fn tiers_are_rejected() {
        let tiers = Limit::tiers([crate::tiers::Tier::new(
            5,
            std::time::Duration::from_secs(1),
        )]);
        let tiers = tiers.unwrap();
        let one = NonZeroU32::MIN;
        let error = terms(tiers.algorithm().unwrap(), LeaseShare::new(1, 2), one);
        assert!(error.unwrap_err().to_string().contains("leave `lease` out"));
    }
}
