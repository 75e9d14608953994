//! Denials that a process remembers, whatever the algorithm of the bucket.

use super::{
    algorithm::{Algorithm, each, each_as, map_each},
    state::State,
};
use crate::{
    algorithm::{
        action::Ask,
        concurrency::Concurrency,
        denial::{DeniedIn, Denying},
        each::Each,
        gcra::Gcra,
        quota::Quota,
        tiers::Tiers,
        time::NEVER,
        window::Window,
    },
    clock::Timestamp,
};

/// A denied bucket.
pub(crate) type Denied =
    Each<DeniedIn<Gcra>, DeniedIn<Tiers>, DeniedIn<Window>, DeniedIn<Quota>, DeniedIn<Concurrency>>;

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
