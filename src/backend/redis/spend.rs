//! One spend from one bucket, which may share a script call with others like it.

use std::{iter, ptr};

use fred::types::Value;
use smallvec::{SmallVec, smallvec};

use super::{
    arguments::{gcra_terms, integer, micros, period, quota_member, tiers_terms, window_member},
    script::{GRANTS, SPENDS, Script, USES},
    stored_reply::StoredReply,
};
use crate::{
    clock::Timestamp,
    gcra::Gcra,
    quota::{Quota, Usage},
    tiers::Tiers,
    transaction::{Algorithm, Member},
    window::Window,
};

/// The largest window that scripts report unit by unit.
const SMALL_WINDOW: u32 = 16;

/// One spend from one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spend {
    from: From,
    cost: u32,
    pub(super) now: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum From {
    /// A GCRA bucket, and the longest wait in its line, in microseconds.
    Gcra(Gcra, u64),
    Quota(Quota),
    Window(Window),
    /// A bucket with tiers, and the fewest units to grant.
    Tiers(Tiers, u32),
}

impl Spend {
    /// Creates the spend of a member, unless only the general script can decide it.
    pub(super) fn new(member: &Member<'_>, now: Option<Timestamp>) -> Option<Self> {
        let from = match member.algorithm {
            Algorithm::Gcra(gcra) => From::Gcra(*gcra, gcra.line_us(member.joins_line())),
            Algorithm::Quota(quota) => From::Quota(*quota),
            Algorithm::Window(window) if window.limit() <= SMALL_WINDOW => From::Window(*window),
            Algorithm::Window(_) => return None,
            Algorithm::Tiers(tiers) => From::Tiers(tiers.clone(), member.min_cost),
        };
        Some(Self {
            from,
            cost: member.cost,
            now,
        })
    }

    /// Returns whether a single spend of this kind has its own script.
    pub(super) fn is_of_gcra(&self) -> bool {
        matches!(self.from, From::Gcra(..))
    }

    /// Returns whether one script call can carry both.
    pub(super) fn is_with(&self, other: &Self) -> bool {
        self.now == other.now && ptr::eq(self.script(), other.script())
    }

    /// Returns the script that decides several of them.
    pub(super) fn script(&self) -> &'static Script {
        match self.from {
            From::Gcra(..) => &SPENDS,
            From::Quota(_) | From::Window(_) => &USES,
            From::Tiers(..) => &GRANTS,
        }
    }

    /// Returns the tiers, and the most and the fewest units to grant, if the spend is from a bucket with tiers.
    pub(super) fn of_tiers(&self) -> Option<(&Tiers, u32, u32)> {
        match &self.from {
            From::Tiers(tiers, least) => Some((tiers, self.cost, *least)),
            _ => None,
        }
    }

    /// Returns the amount of data that the server reads and answers, counted in arguments.
    pub(super) fn weight(&self) -> usize {
        match &self.from {
            From::Gcra(..) | From::Quota(_) | From::Window(_) => 1,
            From::Tiers(tiers, least) => 1 + 5 * tiers.spans().len() + *least as usize,
        }
    }

    /// Encodes the limit and the cost for the scripts for spends.
    pub(super) fn terms(&self) -> SmallVec<[Value; 5]> {
        let cost = integer(self.cost.into());
        match &self.from {
            From::Gcra(gcra, wait_us) => {
                gcra_terms(gcra, gcra.increment(self.cost), *wait_us).into()
            }
            From::Quota(quota) => {
                let [length, shift] = period(quota.per());
                smallvec![integer(quota.quota().into()), cost, length, shift]
            }
            From::Window(window) => smallvec![
                integer(window.limit().into()),
                cost,
                micros(window.window()),
                Value::from_static_str("W"),
            ],
            From::Tiers(tiers, least) => tiers_terms(tiers, self.cost, *least).collect(),
        }
    }

    /// Encodes the spend for the general script, after the verb.
    pub(super) fn member(&self) -> SmallVec<[Value; 6]> {
        let nothing_named = Value::Integer(-1);
        match &self.from {
            From::Gcra(..) => self.terms().into_iter().collect(),
            From::Quota(quota) => quota_member(quota, self.cost, nothing_named).into(),
            From::Window(window) => window_member(window, "spend", self.cost, nothing_named).into(),
            From::Tiers(..) => {
                let algorithm = Value::from_static_str("T");
                iter::once(algorithm).chain(self.terms()).collect()
            }
        }
    }

    /// Returns the state after the spend at `now` (µs since the epoch), or `None` if it does not fit.
    pub(super) fn apply(&self, stored: &StoredReply, now: u64) -> Option<StoredReply> {
        match (&self.from, stored) {
            (From::Gcra(gcra, wait_us), stored) => {
                let tat = gcra.spend_within(stored.tat(), now, self.cost, *wait_us)?;
                Some(StoredReply::of_tat(tat))
            }
            (From::Quota(quota), stored) => {
                let Usage { start_us, used } = quota.spend(stored.usage(), now, self.cost)?;
                Some(StoredReply::Numbers(start_us, used))
            }
            (From::Window(window), StoredReply::Window(stored)) => {
                let taken = stored.take(window, self.cost)?;
                Some(StoredReply::Window(Box::new(taken)))
            }
            // `StoredTiers::request` does this for tiers.
            (From::Window(_) | From::Tiers(..), _) => None,
        }
    }

    /// Reads the stored state from the answer of a script for spends.
    pub(super) fn stored(&self, first: &Value, second: &Value, now: u64) -> Option<StoredReply> {
        match (&self.from, first) {
            (From::Window(_), Value::Array(units)) => StoredReply::of_units(units, now),
            (From::Window(_), _) | (_, Value::Array(_)) => None,
            _ => StoredReply::parse(first, second, now),
        }
    }
}
