//! Denials that a process remembers, so that it need not ask the store again.

use std::fmt;

use super::{action::Ask, counting::Counting, time::NEVER};

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

impl<A: Denying> DeniedIn<A> {
    pub(super) fn new(by: &A, state: A::State, ask: &Ask<'_>, at: u64) -> Self {
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
