//! How buckets follow a store, whatever their algorithm.

use super::{
    algorithm::{Algorithm, each, map_each},
    state::State,
};
use crate::{
    algorithm::{
        action::{Action, Ask, Refund},
        each::Each,
        follow::{Following, Repeat},
        share::Share,
    },
    clock::Timestamp,
};

impl Algorithm {
    /// Returns the state of a bucket that was used up at `now`, as a request sees it.
    pub(crate) fn used_up(&self, ask: &Ask<'_>, now: Timestamp) -> State {
        map_each!(self, by => by.used_up(ask, now.as_micros()))
    }

    /// Returns an answered state within the range of the arithmetic.
    pub(crate) fn bounded(&self, state: State, now: Timestamp) -> State {
        map_each!((self, state), (by, state) => by.bounded(state, now.as_micros()), _ => state)
    }

    /// Returns whether the bucket is not like an unused one. A state of another algorithm counts as unused.
    pub(crate) fn is_used(&self, state: State, now: Timestamp) -> bool {
        each!((self, state), (by, state) => by.is_used(state, now.as_micros()), _ => false)
    }

    /// Returns the instant, in µs since the epoch, up to which a local state has to follow each answer of the store; 0 if
    /// it need not.
    pub(crate) fn follows_until(&self, state: State) -> u64 {
        each!((self, state), (by, state) => by.follows_until(state), _ => 0)
    }

    /// Returns the longest time, in µs, for which a local state has to follow after a charge, unless it is a debit.
    pub(crate) fn longest_charge(&self) -> u64 {
        each!(self, by => by.longest_charge())
    }

    /// Returns the seen state after an answer. It never goes down.
    pub(crate) fn raised(&self, seen: State, answered: State) -> State {
        map_each!((self, seen, answered), (by, seen, answered) => by.raised(seen, answered), _ => seen)
    }

    /// Returns the local state after an answer has raised the seen one from `before` to `after`.
    pub(crate) fn followed(
        &self,
        own: State,
        before: State,
        after: State,
        now: Timestamp,
    ) -> State {
        map_each!((self, own, before, after),
            (by, own, before, after) => by.followed(own, [before, after], now.as_micros()),
            _ => own)
    }

    /// Returns the seen state after a refund of the store, which leaves at least `least`.
    pub(crate) fn lowered(
        &self,
        seen: State,
        least: State,
        refund: Refund<'_>,
        cost: u32,
        now: Timestamp,
    ) -> State {
        map_each!((self, seen, least),
            (by, seen, least) => by.lowered(seen, least, refund, cost, now.as_micros()),
            _ => seen)
    }

    /// Returns the local state after a refund of the store has changed the seen one from the first state to the second.
    /// The store has answered the third.
    pub(crate) fn lowered_own(
        &self,
        own: State,
        seen: [State; 3],
        cost: u32,
        share: Share,
        now: Timestamp,
    ) -> State {
        let [before, after, answered] = seen;
        map_each!((self, own, before, after, answered),
            (by, own, before, after, answered) => {
                by.lowered_own(own, [before, after, answered], cost, share, now.as_micros())
            },
            _ => own)
    }

    /// Returns the local state with everything that was seen at the store.
    pub(crate) fn caught_up(&self, own: State, seen: State, share: Share) -> State {
        map_each!((self, own, seen), (by, own, seen) => by.caught_up(own, seen, share), _ => own)
    }

    /// Returns the seen state after a charge that the store has perhaps made.
    pub(crate) fn perhaps_charged(&self, seen: State, cost: u32, now: Timestamp) -> State {
        map_each!((self, seen),
            (by, seen) => by.perhaps_charged(seen, cost, now.as_micros()), _ => seen)
    }

    /// Returns how a history repeats an action of the store that has led to a state.
    pub(crate) fn repeat(&self, action: Action, state: State) -> Repeat {
        each!((self, state), (by, state) => by.repeat(action, &state), _ => Repeat::Nothing)
    }
}

impl Share {
    /// Returns the share of a limit. An empty one takes as long to fill as the whole.
    pub(crate) fn algorithm(self, whole: &Algorithm) -> Algorithm {
        match self {
            Self::WHOLE => whole.clone(),
            share => map_each!(whole, by => by.share(share)),
        }
    }
}
