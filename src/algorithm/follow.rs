//! How the memories of a process follow a store, so that they can decide while it does not answer.
//!
//! The state of a bucket that fits into a row is in two memories. `seen` is the state that the process has seen at the
//! store, and `own` is the one with local charges. A history is in one memory, and repeats what the store does.

use super::{
    action::{Action, Ask, Refund},
    counting::Counting,
    share::Share,
    ticks::Tat,
};

/// How states follow those of a store. Times are microseconds since the Unix epoch.
pub(crate) trait Following: Counting {
    /// Returns the share of the limit. An empty share takes as long to fill as the whole.
    fn share(&self, share: Share) -> Self;

    /// Returns the most that can be taken from a bucket at once.
    fn most(&self) -> u32;

    /// Returns the state of a bucket that was used up at `now`, as a request sees it.
    fn used_up(&self, ask: &Ask<'_>, now: u64) -> Self::State {
        let everything = Ask {
            action: Action::Spend,
            cost: self.most(),
            min_cost: 1,
            ..*ask
        };
        let state = self.judge(&everything, self.view(None, now), now).state;
        let stored = self.keep(None, Action::Spend, state, now);
        let probe = Ask {
            action: Action::Probe,
            ..*ask
        };
        let view = self.view(stored.as_ref(), now);
        self.judge(&probe, view, now).state
    }

    /// Returns the instant of a charge. The receipts of a bucket have them in order.
    fn instant(charge: &Self::Charge) -> Tat;

    // States in rows. A history needs none of these.

    /// Returns an answered state within the range of the arithmetic.
    fn bounded(&self, state: Self::State, now: u64) -> Self::State {
        let _ = now;
        state
    }

    /// Returns whether the bucket is not like an unused one.
    fn is_used(&self, state: Self::State, now: u64) -> bool {
        let _ = (state, now);
        false
    }

    /// Returns the instant up to which a local state has to follow each answer of the store; 0 if it need not, because it
    /// catches up before each decision.
    fn follows_until(&self, state: Self::State) -> u64 {
        let _ = state;
        0
    }

    /// Returns the longest time for which a local state has to follow after a charge, unless it is a debit.
    fn longest_charge(&self) -> u64 {
        0
    }

    /// Returns the seen state after an answer. It never goes down: answers can arrive out of order, and a store can lose
    /// its data.
    fn raised(&self, seen: Self::State, answered: Self::State) -> Self::State {
        let _ = answered;
        seen
    }

    /// Returns the local state after an answer has raised the seen one from the first state to the second.
    fn followed(&self, own: Self::State, seen: [Self::State; 2], now: u64) -> Self::State {
        let _ = (seen, now);
        own
    }

    /// Returns the seen state after a refund of the store, which is at most what the store had charged. It hides no later
    /// charge, after which the store has answered `least`.
    fn lowered(
        &self,
        seen: Self::State,
        least: Self::State,
        refund: Refund<'_>,
        cost: u32,
        now: u64,
    ) -> Self::State {
        let _ = (least, refund, cost, now);
        seen
    }

    /// Returns the local state after a refund of the store has changed the seen one from the first state to the second.
    /// The store has answered the third.
    fn lowered_own(
        &self,
        own: Self::State,
        seen: [Self::State; 3],
        cost: u32,
        share: Share,
        now: u64,
    ) -> Self::State {
        let _ = (seen, cost, share, now);
        own
    }

    /// Returns the local state with everything that was seen at the store.
    fn caught_up(&self, own: Self::State, seen: Self::State, share: Share) -> Self::State {
        let _ = (seen, share);
        own
    }

    /// Returns the seen state after a charge that the store has perhaps made.
    fn perhaps_charged(&self, seen: Self::State, cost: u32, now: u64) -> Self::State {
        let _ = (cost, now);
        seen
    }

    // Histories.

    /// Returns how to repeat an action of the store that has led to a state.
    fn repeat(&self, action: Action, state: &Self::State) -> Repeat {
        let _ = (action, state);
        Repeat::Nothing
    }

    /// Returns the same charge as if it had been made at another instant.
    fn moved(charge: &Self::Charge, at: u64) -> Self::Charge {
        let _ = at;
        *charge
    }
}

/// How a history repeats an action of the store.
pub(crate) enum Repeat {
    Nothing,
    /// The answered state is stored.
    Store,
    /// Units are taken, which the store has taken at this instant.
    Take {
        at: u64,
        units: u32,
    },
    GiveBack {
        units: u32,
    },
    /// Units of a receipt are moved to this instant of the store.
    Renew {
        at: u64,
        units: u32,
    },
}
