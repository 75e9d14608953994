//! What a process owes the store for decisions that it has made without it.

use std::fmt;

use super::{
    action::Refund,
    counting::Counting,
    ticks::{Tat, Ticks},
};

/// How local charges become a debt. Times are microseconds since the Unix epoch.
pub(crate) trait Owing: Counting {
    /// The record of a bucket's local charges.
    type Ledger: fmt::Debug;

    /// Whether the two memories say what is owed, so that a charge need not be recorded.
    const IS_IN_MEMORY: bool = false;

    /// Creates a ledger without charges; `None` if nothing can be owed, because the bucket cannot be debited.
    fn ledger(&self) -> Option<Self::Ledger> {
        None
    }

    /// Records a charge that has led to a state.
    fn charge_ledger(&self, ledger: &mut Self::Ledger, state: &Self::State, cost: u32, now: u64) {
        let _ = (ledger, state, cost, now);
    }

    /// Records the refund of local charges.
    fn refund_ledger(&self, ledger: &mut Self::Ledger, refund: Refund<'_>, cost: u32, now: u64) {
        let _ = (ledger, refund, cost, now);
    }

    /// Records that a refund of the store has changed the local state.
    fn lower_ledger(&self, ledger: &mut Self::Ledger, before: Self::State, after: Self::State) {
        let _ = (ledger, before, after);
    }

    /// Returns the debt that is paid first. States of histories are those of unused buckets.
    fn owed(
        &self,
        ledger: &Self::Ledger,
        own: Self::State,
        seen: Self::State,
        now: u64,
    ) -> Option<Owed> {
        let _ = (ledger, own, seen, now);
        None
    }

    /// Returns the units of the whole debt.
    fn owed_units(
        &self,
        ledger: &Self::Ledger,
        own: Self::State,
        seen: Self::State,
        now: u64,
    ) -> u32 {
        let owed = self.owed(ledger, own, seen, now);
        owed.map_or(0, |owed| owed.units)
    }

    /// Leaves only the debt that is paid first. Returns the rest.
    fn split_ledger(&self, ledger: &mut Self::Ledger, now: u64) -> Option<Self::Ledger> {
        let _ = (ledger, now);
        None
    }

    /// Adds an earlier ledger of the same bucket.
    fn merge_ledger(&self, ledger: &mut Self::Ledger, earlier: Self::Ledger) {
        let _ = (ledger, earlier);
    }

    /// Returns the number of entries, if there can be many.
    fn entries(&self, ledger: &Self::Ledger) -> usize {
        let _ = ledger;
        0
    }

    /// Forgets the newest entry, if there is one.
    fn forget_newest(&self, ledger: &mut Self::Ledger) -> bool {
        let _ = ledger;
        false
    }

    /// Returns the seen state once a debt of this span counts as charged at the store.
    fn settled(&self, seen: Self::State, span: Ticks, now: u64) -> Self::State {
        let _ = (span, now);
        seen
    }

    /// Adds to the local state what a debt of this span has hidden: the charges that are in the seen state without the debt,
    /// the second one, but were not in the one with it.
    fn revealed(
        &self,
        own: Self::State,
        seen: [Self::State; 2],
        span: Ticks,
        now: u64,
    ) -> Self::State {
        let _ = (seen, span, now);
        own
    }
}

/// A debt that is paid with one debit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    pub(crate) units: u32,
    /// Once it is paid, receipts of local charges up to this instant refund nothing.
    pub(crate) until: Tat,
    /// How far the local state is beyond the seen one, if the memories say what is owed.
    pub(crate) span: Ticks,
    /// The instant for which the store has to charge the units, if it is not the time of the debit.
    pub(crate) taken_at: Option<u64>,
}
