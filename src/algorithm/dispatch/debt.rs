//! What a process owes the store, whatever the algorithm of the bucket.

use super::{
    algorithm::{Algorithm, each, each_as, map_each},
    state::State,
};
use crate::{
    algorithm::{
        action::Refund,
        concurrency::Concurrency,
        debt::{Owed, Owing},
        each::Each,
        gcra::Gcra,
        quota::Quota,
        ticks::Ticks,
        tiers::Tiers,
        window::Window,
    },
    clock::Timestamp,
};

/// The record of a bucket's local charges.
pub(crate) type Ledger = Each<
    <Gcra as Owing>::Ledger,
    <Tiers as Owing>::Ledger,
    <Window as Owing>::Ledger,
    <Quota as Owing>::Ledger,
    <Concurrency as Owing>::Ledger,
>;

impl Algorithm {
    /// Creates a ledger without charges; `None` if nothing can be owed.
    pub(crate) fn ledger(&self) -> Option<Ledger> {
        Some(map_each!(self, by => by.ledger()?))
    }

    /// Returns whether the memories say what is owed, so that a charge need not be recorded.
    #[inline]
    pub(crate) const fn owes_in_memory(&self) -> bool {
        each_as!(self, (By, This, _) => By::IS_IN_MEMORY)
    }

    /// Records a charge that has led to a state.
    pub(crate) fn charge_ledger(
        &self,
        ledger: &mut Ledger,
        state: State,
        cost: u32,
        now: Timestamp,
    ) {
        each!((self, ledger, state),
            (by, ledger, state) => by.charge_ledger(ledger, &state, cost, now.as_micros()),
            _ => ());
    }

    /// Records the refund of local charges.
    pub(crate) fn refund_ledger(
        &self,
        ledger: &mut Ledger,
        refund: Refund<'_>,
        cost: u32,
        now: Timestamp,
    ) {
        each!((self, ledger),
            (by, ledger) => by.refund_ledger(ledger, refund, cost, now.as_micros()),
            _ => ());
    }

    /// Records that a refund of the store has changed the local state.
    pub(crate) fn lower_ledger(&self, ledger: &mut Ledger, before: State, after: State) {
        each!((self, ledger, before, after),
            (by, ledger, before, after) => by.lower_ledger(ledger, before, after),
            _ => ());
    }

    /// Returns the debt that is paid first, by the states in the two memories.
    pub(crate) fn owed(
        &self,
        ledger: &Ledger,
        own: State,
        seen: State,
        now: Timestamp,
    ) -> Option<Owed> {
        each!((self, ledger, own, seen),
            (by, ledger, own, seen) => by.owed(ledger, own, seen, now.as_micros()),
            _ => None)
    }

    /// Returns the units of the whole debt.
    pub(crate) fn owed_units(
        &self,
        ledger: &Ledger,
        own: State,
        seen: State,
        now: Timestamp,
    ) -> u32 {
        each!((self, ledger, own, seen),
            (by, ledger, own, seen) => by.owed_units(ledger, own, seen, now.as_micros()),
            _ => 0)
    }

    /// Leaves only the debt that is paid first. Returns the rest.
    pub(crate) fn split_ledger(&self, ledger: &mut Ledger, now: Timestamp) -> Option<Ledger> {
        let now = now.as_micros();
        map_each!((self, ledger), (by, own) => by.split_ledger(own, now)?)
    }

    /// Adds an earlier ledger of the same bucket.
    pub(crate) fn merge_ledger(&self, ledger: &mut Ledger, earlier: Ledger) {
        each!((self, ledger, earlier),
            (by, ledger, earlier) => by.merge_ledger(ledger, earlier),
            _ => ());
    }

    /// Returns the number of entries, if there can be many.
    pub(crate) fn entries(&self, ledger: &Ledger) -> usize {
        each!((self, ledger), (by, ledger) => by.entries(ledger), _ => 0)
    }

    /// Forgets the newest entry, if there is one.
    pub(crate) fn forget_newest(&self, ledger: &mut Ledger) -> bool {
        each!((self, ledger), (by, ledger) => by.forget_newest(ledger), _ => false)
    }

    /// Returns the seen state once a debt of this span counts as charged at the store.
    pub(crate) fn settled(&self, seen: State, span: Ticks, now: Timestamp) -> State {
        map_each!((self, seen), (by, seen) => by.settled(seen, span, now.as_micros()), _ => seen)
    }

    /// Adds to the local state what a debt of this span has hidden between two seen states, with and without it.
    pub(crate) fn revealed(
        &self,
        own: State,
        [with, without]: [State; 2],
        span: Ticks,
        now: Timestamp,
    ) -> State {
        let now = now.as_micros();
        map_each!((self, own, with, without),
            (by, own, with, without) => by.revealed(own, [with, without], span, now), _ => own)
    }
}
