//! One spend from one bucket, which may share a script call with others like it.

use super::script::{Script, group_script};
use crate::{
    algorithm::{Action, Algorithm, Ask, Found, GroupScript, Refund},
    clock::Timestamp,
    transaction::Member,
};

/// One spend from one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spend {
    pub(super) algorithm: Algorithm,
    cost: u32,
    min_cost: u32,
    joins_line: bool,
    pub(super) now: Option<Timestamp>,
    group: GroupScript,
}

impl Spend {
    /// Creates the spend of a member, unless only the general script can decide it.
    pub(super) fn new(member: &Member<'_>, now: Option<Timestamp>) -> Option<Self> {
        let group = member.algorithm.group_script()?;
        Some(Self {
            algorithm: member.algorithm.clone(),
            cost: member.cost,
            min_cost: member.min_cost,
            joins_line: member.joins_line(),
            now,
            group,
        })
    }

    /// Returns what the spend asks of its bucket.
    pub(super) const fn ask(&self) -> Ask<'static> {
        Ask {
            action: Action::Spend,
            cost: self.cost,
            min_cost: self.min_cost,
            joins_line: self.joins_line,
            saturates: false,
            ago_us: 0,
            refund: Refund::Nothing,
        }
    }

    /// Returns whether a single spend of this kind has its own script.
    pub(super) fn has_own_script(&self) -> bool {
        self.group == GroupScript::Spends
    }

    /// Returns whether one script call can carry both.
    pub(super) fn is_with(&self, other: &Self) -> bool {
        self.now == other.now && self.group == other.group
    }

    /// Returns the script that decides several of them.
    pub(super) fn script(&self) -> &'static Script {
        group_script(self.group)
    }

    /// Returns how many units are taken at most, by the count of the script.
    pub(super) fn most_taken(&self) -> u32 {
        self.algorithm.most_taken(&self.ask())
    }

    /// Returns how many units are taken, by the count of the script, and the state afterwards. Returns `None` for a part of
    /// a state.
    pub(super) fn apply(&self, stored: &Found, now: Timestamp) -> Option<(u32, Found)> {
        self.algorithm
            .spend_found(&self.ask(), stored, now.as_micros())
    }
}
