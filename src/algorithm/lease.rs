//! Units that a process charges in advance.

use super::{action::Refund, counting::Counting};

/// Whether units can be charged in advance, and what they are worth later. Times are microseconds since the Unix epoch.
///
/// Units are charged in a period. If they never expire, there is one period, which starts at 0. An algorithm without such
/// units needs only the first method.
pub(crate) trait Leasing: Counting {
    /// Returns the most that fits into one charge, or the reason why nothing can be charged in advance.
    fn divisible(&self) -> Result<u32, &'static str>;

    /// Returns the start of the period in which a bucket with this state was charged.
    fn period_of(&self, state: Self::State) -> u64 {
        let _ = state;
        0
    }

    /// Returns whether units that were charged in a period can still be spent.
    fn counts_in(&self, period: u64, now: u64) -> bool {
        let _ = (period, now);
        true
    }

    /// Returns whether a cost fits into a bucket.
    fn fits(&self, state: Self::State, now: u64, cost: u32) -> bool {
        let _ = (state, now, cost);
        false
    }

    /// Returns the state of a bucket that has been used up in a period.
    fn empty_in(&self, period: u64, now: u64) -> Option<Self::State> {
        let _ = (period, now);
        None
    }

    /// Returns the state after a refund of units that were charged in a period.
    fn after_return(&self, state: Self::State, period: u64, units: u32) -> Self::State {
        let _ = (period, units);
        state
    }

    /// Returns the charge of units in a period, for a receipt.
    fn charge_in(&self, period: u64) -> Option<Self::Charge> {
        let _ = period;
        None
    }

    /// Returns whether a refund of a cost gives back as much as that many units of a period are worth.
    fn is_worth(&self, refund: Refund<'_>, cost: u32, period: u64) -> bool {
        let _ = (refund, cost, period);
        false
    }
}
