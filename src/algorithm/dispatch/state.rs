//! The states of buckets: as one request sees them, and as an answer shows them.

use super::algorithm::{Algorithm, each_as, map_each};
use crate::{
    algorithm::{
        action::{Action, Ask},
        algorithm_key::AlgorithmKey,
        concurrency::Concurrency,
        counting::{Counting, Judged},
        each::Each,
        gcra::{Gcra, Tat},
        quota::Quota,
        tiers::Tiers,
        window::Window,
    },
    clock::Timestamp,
};

/// The part of a bucket's state that a decision shows.
pub(crate) type State = Each<
    <Gcra as Counting>::State,
    <Tiers as Counting>::State,
    <Window as Counting>::State,
    <Quota as Counting>::State,
    <Concurrency as Counting>::State,
>;

/// The part of a bucket's state that one request depends on, with the algorithm that judges it.
pub(crate) type View<'a> = Each<
    ViewIn<'a, Gcra>,
    ViewIn<'a, Tiers>,
    ViewIn<'a, Window>,
    ViewIn<'a, Quota>,
    ViewIn<'a, Concurrency>,
>;

/// The part of a bucket's state that one request depends on.
#[derive(Clone, Debug)]
pub(crate) struct ViewIn<'a, A: Counting> {
    pub(crate) by: &'a A,
    pub(crate) view: A::View<'a>,
}

impl State {
    /// The state of a missing bucket, which is full.
    pub(crate) const MISSING: Self = Self::Gcra(Tat { us: 0, frac: 0 });

    /// Converts the state to another clock, so that it is as far from `to` as it was from `from`. A missing bucket is full
    /// by any clock.
    pub(crate) fn by_clock(self, from: Timestamp, to: Timestamp) -> Self {
        let (from, to) = (from.as_micros(), to.as_micros());
        each_as!(self, (By, This, state) => This(By::by_clock(state, from, to)))
    }

    /// Returns the state `us` later, if there were no other requests.
    pub(crate) fn later(self, algorithm: &Algorithm, us: u64) -> Self {
        map_each!((self, algorithm), (state, by) => by.later(state, us), _ => self)
    }
}

impl View<'_> {
    /// Passes on what the action leads to, if the batch passes. This is large, so each algorithm writes it where it stays.
    #[inline(always)]
    pub(crate) fn judge(self, ask: &Ask<'_>, now: Timestamp, write: impl FnOnce(Judged<State>)) {
        if ask.action == Action::Reset {
            return write(Judged::new(State::MISSING, true));
        }
        let now = now.as_micros();
        each_as!(self, (By, This, seen) => write(seen.by.judge(ask, seen.view, now).map(This)));
    }

    /// Returns the state of the bucket if nothing is taken from it.
    pub(crate) fn untouched(self, ask: &Ask<'_>, now: Timestamp) -> State {
        map_each!(self, seen => seen.by.untouched(ask, seen.view, now.as_micros()))
    }
}

impl Algorithm {
    /// Returns a state as if the bucket also held units that are charged in advance. A debt does not concern them.
    #[cold]
    pub(crate) fn with_held(&self, state: State, now: Timestamp, held: u32) -> State {
        let now = now.as_micros();
        map_each!((self, state), (by, state) => by.with_held(state, now, held), _ => state)
    }

    /// The part of bucket keys that stands for the algorithm.
    #[inline]
    #[must_use]
    pub fn key(&self) -> AlgorithmKey {
        each_as!(self, (By, This, _) => By::KEY)
    }
}
