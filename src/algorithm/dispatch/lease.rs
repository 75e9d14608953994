//! Units that a process charges in advance, whatever the algorithm of the bucket.

use super::{
    algorithm::{Algorithm, each, map_each},
    state::State,
};
use crate::{
    algorithm::{action::Refund, charge::Charge, each::Each, lease::Leasing},
    clock::Timestamp,
};

impl Algorithm {
    /// Returns the most that fits into one charge, or the reason why nothing can be charged in advance.
    pub(crate) fn divisible(&self) -> Result<u32, &'static str> {
        each!(self, by => by.divisible())
    }

    /// Returns the start of the period in which a bucket with this state was charged; `None` for a state of another
    /// algorithm.
    pub(crate) fn period_of(&self, state: State) -> Option<u64> {
        each!((self, state), (by, state) => Some(by.period_of(state)), _ => None)
    }

    /// Returns whether units that were charged in a period can still be spent.
    pub(crate) fn counts_in(&self, period: u64, now: Timestamp) -> bool {
        each!(self, by => by.counts_in(period, now.as_micros()))
    }

    /// Returns whether a cost fits into a bucket.
    pub(crate) fn fits(&self, state: State, now: Timestamp, cost: u32) -> bool {
        each!((self, state), (by, state) => by.fits(state, now.as_micros(), cost), _ => false)
    }

    /// Returns the state of a bucket that has been used up in a period.
    pub(crate) fn empty_in(&self, period: u64, now: Timestamp) -> Option<State> {
        let now = now.as_micros();
        Some(map_each!(self, by => by.empty_in(period, now)?))
    }

    /// Returns the state after a refund of units that were charged in a period.
    pub(crate) fn after_return(&self, state: State, period: u64, units: u32) -> State {
        map_each!((self, state),
            (by, state) => by.after_return(state, period, units), _ => state)
    }

    /// Returns the charge of units in a period, for a receipt.
    pub(crate) fn charge_in(&self, period: u64) -> Option<Charge> {
        Some(map_each!(self, by => by.charge_in(period)?))
    }

    /// Returns whether a refund of a cost gives back as much as that many units of a period are worth.
    pub(crate) fn is_worth(&self, refund: Refund<'_>, cost: u32, period: u64) -> bool {
        each!(self, by => by.is_worth(refund, cost, period))
    }
}
