//! A spend from one bucket, which can be decided together with equal ones.

use crate::{
    algorithm::{Action, Algorithm, Ask, Found, Refund},
    transaction::Member,
};

/// A spend from one bucket. Its script finds the whole state, so its answer follows from the answer to an earlier one.
#[derive(Clone, Debug)]
pub(super) struct Spend {
    algorithm: Algorithm,
    cost: u32,
    min_cost: u32,
    joins_line: bool,
}

impl Spend {
    /// Creates the spend of a member, unless its value can be so large that scripts only find a part of it.
    pub(super) fn new(member: &Member<'_>) -> Option<Self> {
        member.algorithm.has_small_values().then(|| Self {
            algorithm: member.algorithm.clone(),
            cost: member.cost,
            min_cost: member.min_cost,
            joins_line: member.joins_line(),
        })
    }

    /// Takes what the spend takes from a state. Returns how much that is, by the count of the script, and the state before.
    /// Returns `None` for a part of a state.
    pub(super) fn take(&self, found: &mut Found) -> Option<(u32, Found)> {
        let ask = Ask {
            action: Action::Spend,
            cost: self.cost,
            min_cost: self.min_cost,
            joins_line: self.joins_line,
            saturates: false,
            ago_us: 0,
            refund: Refund::Nothing,
        };
        self.algorithm.spend_found(&ask, found)
    }
}
