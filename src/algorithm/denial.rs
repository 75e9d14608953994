//! Denials that a process remembers, so that it need not ask the store again.

use std::fmt;

use super::{
    action::Ask,
    concurrency::Concurrency,
    counting::Counting,
    each::{Algorithm, Each, each, each_as, map_each},
    gcra::Gcra,
    quota::Quota,
    state::State,
    tiers::Tiers,
    time::NEVER,
    window::Window,
};
use crate::clock::Timestamp;

/// Until when a denial holds, and for which requests. Times are microseconds since the Unix epoch.
pub(crate) trait Denying: Counting {
    /// The limit for which a denial holds; `()` if the state of the bucket is enough to judge by any limit.
    type DeniedBy: Clone + fmt::Debug;

    /// Whether a later grant can outdate a denial.
    const OUTDATED_BY_GRANTS: bool;

    /// Whether denials can be remembered.
    const IS_REMEMBERED: bool = true;

    /// Returns the limit for which a denial holds.
    fn denied_by(&self) -> Self::DeniedBy;

    /// Returns the cost for which a denial holds; 0 if the state of the bucket is enough to judge any cost.
    fn denied_cost(ask: &Ask<'_>) -> u32 {
        let _ = ask;
        0
    }

    /// Returns the longest time, in µs from `now`, for which a denial can hold.
    fn denied_for(&self, state: Self::State, now: u64, cost: u32) -> u64 {
        let _ = (state, now, cost);
        NEVER
    }

    /// Returns the most that fits into a bucket, if its state alone says so.
    fn left(&self, state: Self::State, now: u64) -> u32 {
        let _ = (state, now);
        0
    }

    /// Returns the state of the bucket at `now`, if it denies the request.
    fn denies(&self, denied: &DeniedIn<Self>, ask: &Ask<'_>, now: u64) -> Option<Self::State>;
}

/// A denied bucket of one algorithm.
#[derive(Clone, Debug)]
pub(crate) struct DeniedIn<A: Denying> {
    pub(super) by: A::DeniedBy,
    pub(super) state: A::State,
    /// The time of the state.
    at: u64,
    pub(super) cost: u32,
}

/// A denied bucket.
pub(crate) type Denied =
    Each<DeniedIn<Gcra>, DeniedIn<Tiers>, DeniedIn<Window>, DeniedIn<Quota>, DeniedIn<Concurrency>>;

impl<A: Denying> DeniedIn<A> {
    fn new(by: &A, state: A::State, ask: &Ask<'_>, at: u64) -> Self {
        Self {
            by: by.denied_by(),
            state,
            at,
            cost: A::denied_cost(ask),
        }
    }

    /// Returns the time since the denial, if a cost that had to wait `wait` then still has to.
    pub(super) fn waits(&self, wait: u64, now: u64) -> Option<u64> {
        let passed = now.saturating_sub(self.at);
        (passed < wait).then_some(passed)
    }

    /// Returns whether a cost has to wait exactly as long as the denied one. A higher cost usually waits longer, and only
    /// the store knows how long. If the denied cost never passes, then no higher cost does.
    pub(super) fn has_wait_of(&self, cost: u32, wait: u64) -> bool {
        cost == self.cost || cost > self.cost && wait == NEVER
    }
}

impl Denied {
    /// Returns the cost for which the denial holds; 0 if it is any cost.
    pub(crate) fn cost(&self) -> u32 {
        each!(self, denied => denied.cost)
    }
}

impl Algorithm {
    /// Returns the most that fits into a bucket; 0 for a state of another algorithm.
    pub(crate) fn left(&self, state: State, now: Timestamp) -> u32 {
        each!((self, state), (by, state) => by.left(state, now.as_micros()), _ => 0)
    }

    /// Returns what to remember of a denial, with the state of the bucket at `at`.
    pub(crate) fn denied(&self, state: State, ask: &Ask<'_>, at: Timestamp) -> Option<Denied> {
        if !each_as!(self, (By, This, _) => By::IS_REMEMBERED) {
            return None;
        }
        map_each!((self, state), (by, state) => DeniedIn::new(by, state, ask, at.as_micros()))
    }

    /// Returns the state of a denied bucket at `now`, if it denies the request.
    pub(crate) fn denies(&self, denied: &Denied, ask: &Ask<'_>, now: Timestamp) -> Option<State> {
        let now = now.as_micros();
        map_each!((self, denied), (by, denied) => by.denies(denied, ask, now)?)
    }

    /// Returns the longest time, in µs from `now`, for which a denial can hold.
    pub(crate) fn denied_for(&self, state: State, now: Timestamp, cost: u32) -> u64 {
        let now = now.as_micros();
        each!((self, state), (by, state) => by.denied_for(state, now, cost), _ => NEVER)
    }

    /// Returns whether a grant can outdate a denial.
    pub(crate) const fn grants_outdate_denials(&self) -> bool {
        each_as!(self, (By, This, _) => By::OUTDATED_BY_GRANTS)
    }
}
