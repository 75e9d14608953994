//! Splits a burst or a quota between the processes and the store.

use std::num::NonZeroU32;

use crate::{
    backend::{LeaseShare, UnsupportedLimit},
    transaction::Algorithm,
};

/// The split of one limit.
#[derive(Clone, Debug)]
pub(super) struct LimitSplit {
    /// The limit that the store decides with.
    pub(super) at_store: Algorithm,
    /// The most unspent units that each process can hold; 0 if the store decides everything.
    pub(super) units: u32,
    /// The part of the burst or the quota that is reserved for all processes.
    pub(super) reserved: u32,
}

impl LimitSplit {
    /// Splits a limit, if it can be divided and leaves each process at least one unit.
    pub(super) fn of(whole: &Algorithm, share: LeaseShare, processes: NonZeroU32) -> Option<Self> {
        let burst = whole.divisible().ok()?;
        let units = units(burst, share, processes);
        let reserved = units * processes.get();
        let at_store = whole.with_most(burst - reserved)?;
        (units > 0).then_some(Self {
            at_store,
            units,
            reserved,
        })
    }

    /// Leaves the whole limit to the store.
    pub(super) fn none(whole: &Algorithm) -> Self {
        Self {
            at_store: whole.clone(),
            units: 0,
            reserved: 0,
        }
    }
}

/// Returns the part of a limit that the store decides with. If the fleet has grown too large for leases since the `first`
/// number of processes, it is the whole limit. That is no mistake in the limits, so it does not reject a reload of them.
pub(super) fn part_in_force(
    whole: &Algorithm,
    share: LeaseShare,
    processes: NonZeroU32,
    first: NonZeroU32,
) -> Result<Algorithm, UnsupportedLimit> {
    let split = |processes| LimitSplit::of(whole, share, processes);
    match split(processes) {
        Some(split) => Ok(split.at_store),
        None if split(first).is_some() => Ok(whole.clone()),
        None => Err(unsplit(whole, share, processes)),
    }
}

/// Returns the error for a limit that cannot be split.
fn unsplit(whole: &Algorithm, share: LeaseShare, processes: NonZeroU32) -> UnsupportedLimit {
    UnsupportedLimit::new(match whole.divisible() {
        Ok(burst) => format!(
            "{share} of {burst} among {processes} processes leaves less than one unit each: leave `lease` out, or raise \
             it or the limit"
        ),
        Err(reason) => format!(
            "{reason}: leave `lease` out, or give the limit burst, count and period, or a quota"
        ),
    })
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
    use crate::Limit;

    fn split(burst: u32, share: LeaseShare, processes: u32) -> Option<(u32, u32)> {
        let limit = Limit::per_second(1_000_000).burst(burst);
        let processes = NonZeroU32::new(processes).unwrap();
        let algorithm = limit.algorithm().unwrap();
        let split = LimitSplit::of(algorithm, share, processes);
        let part = part_in_force(algorithm, share, processes, processes).ok();
        assert_eq!(part.as_ref(), split.as_ref().map(|split| &split.at_store));
        split.map(|split| (split.units, split.at_store.max_cost()))
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
}
