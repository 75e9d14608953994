//! Splits a burst between the processes and the store.

use std::num::NonZeroU32;

use crate::{
    backend::{LeaseTerms, UnsupportedLimit},
    transaction::{Algorithm, LeaseShare},
};

/// Returns the terms of a limit for a number of processes.
pub(super) fn terms(
    algorithm: &Algorithm,
    share: LeaseShare,
    processes: NonZeroU32,
) -> Result<LeaseTerms, UnsupportedLimit> {
    let burst = divisible(algorithm)?;
    // The store keeps at least half of the burst, so that ordinary costs fit into it.
    let most = (burst - 1) / processes.get().saturating_mul(2);
    let units = share.of(burst).min(most);
    match units {
        0 => Err(UnsupportedLimit::new(format!(
            "with {burst} at once, {share} of that and {processes} processes, a process could hold nothing in advance: \
             leave `lease` out, or raise it or the limit"
        ))),
        _ => Ok(LeaseTerms::new(units, burst - processes.get() * units)),
    }
}

/// The burst or the quota that is split.
fn divisible(algorithm: &Algorithm) -> Result<u32, UnsupportedLimit> {
    algorithm.divisible().map_err(|reason| {
        UnsupportedLimit::new(format!(
            "{reason}: leave `lease` out, or give the limit burst, count and period, or a quota"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limit;

    fn split(burst: u32, share: LeaseShare, processes: u32) -> Option<(u32, u32)> {
        let limit = Limit::per_second(1_000_000).burst(burst);
        let processes = NonZeroU32::new(processes).unwrap();
        let terms = terms(limit.algorithm().unwrap(), share, processes);
        terms.ok().map(|terms| (terms.units, terms.burst))
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
