//! The algorithms whose units can be charged in advance.

use super::moment::Moment;
use crate::{
    algorithm::Charge,
    clock::Timestamp,
    decision::{Answer, State},
    gcra::{Gcra, GcraCharge, Tat},
    quota::{Quota, QuotaCharge, Usage},
    transaction::{Algorithm, Member, Receipt},
};

/// The algorithm of a leased limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leasable {
    Gcra(Gcra),
    Quota(Quota),
}

/// Units that were charged in advance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stock {
    pub(super) units: u32,
    /// The start of the period in which a quota was charged for them; 0 with GCRA.
    pub(super) period: u64,
}

/// What a process knows of a bucket: the units that it holds, and the state that the store had last, by the clock of this
/// process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) stock: Stock,
    pub(super) said: Option<State>,
}

impl Leasable {
    /// The algorithm of a leased member.
    pub(super) const fn of(member: &Member<'_>) -> Option<Self> {
        match member.algorithm {
            _ if member.leased == 0 => None,
            Algorithm::Gcra(gcra) => Some(Self::Gcra(*gcra)),
            Algorithm::Quota(quota) => Some(Self::Quota(*quota)),
            Algorithm::Tiers(_) | Algorithm::Window(_) => None,
        }
    }

    /// The algorithm itself.
    pub(super) const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Gcra(gcra) => Algorithm::Gcra(*gcra),
            Self::Quota(quota) => Algorithm::Quota(*quota),
        }
    }

    /// The most that fits into one charge.
    pub(super) const fn most(&self) -> u32 {
        match self {
            Self::Gcra(gcra) => gcra.burst(),
            Self::Quota(quota) => quota.quota(),
        }
    }

    /// The answer to a request that passes, and what is left after it. If the store has said nothing about the period,
    /// nothing else is left.
    pub(super) fn answer(&self, left: Holding, now: Timestamp) -> Answer {
        let Holding { stock, said } = left;
        let state = said.filter(|said| self.has_state(*said) && period_of(*said) == stock.period);
        let state = state.unwrap_or_else(|| match self {
            Self::Gcra(gcra) => State::Gcra(gcra.empty(now.as_micros())),
            Self::Quota(quota) => State::Quota(Usage {
                start_us: stock.period,
                used: quota.quota(),
            }),
        });
        Answer::new(state, true).leased(stock.units)
    }

    /// Returns whether a state is one of this algorithm.
    pub(super) const fn has_state(&self, state: State) -> bool {
        matches!(
            (self, state),
            (Self::Gcra(_), State::Gcra(_)) | (Self::Quota(_), State::Quota(_))
        )
    }

    /// Returns the state after a refund of units that were charged in a period.
    pub(super) fn given_back(&self, state: State, stock: Stock) -> State {
        match (self, state) {
            (Self::Gcra(gcra), State::Gcra(tat)) => State::Gcra(gcra.before(tat, stock.units)),
            (Self::Quota(_), State::Quota(usage)) if usage.start_us == stock.period => {
                let used = usage.used.saturating_sub(stock.units);
                State::Quota(Usage { used, ..usage })
            }
            (_, state) => state,
        }
    }

    /// Returns whether a cost fits into a bucket of the store.
    pub(super) fn fits(&self, state: State, now_us: u64, cost: u32) -> bool {
        match (self, state) {
            (Self::Gcra(gcra), State::Gcra(tat)) => gcra.spend(tat, now_us, cost).is_some(),
            (Self::Quota(quota), State::Quota(usage)) => quota.spend(usage, now_us, cost).is_some(),
            _ => false,
        }
    }

    /// Returns whether units that were charged in a period can still be spent. Units of GCRA always can.
    pub(super) fn counts(&self, period: u64, now: Moment) -> bool {
        match self {
            Self::Gcra(_) => true,
            Self::Quota(quota) => now.us() < quota.per().end(period),
        }
    }

    /// The store's charge for a stock.
    pub(super) fn charge(&self, stock: Stock) -> Charge {
        match *self {
            // The time of the charge matters only to a line, and a limit with a line has no leases.
            Self::Gcra(gcra) => Charge::Gcra(GcraCharge {
                gcra,
                tat: Tat::default(),
                short: Tat::default(),
            }),
            Self::Quota(_) => Charge::Quota(QuotaCharge {
                start_us: stock.period,
            }),
        }
    }

    /// Returns whether a refund gives back as much as units of a period are worth.
    pub(super) fn is_worth(&self, refund: &Member<'_>, period: u64) -> bool {
        match self {
            // A charge by a limit with cheaper tokens is worth less.
            Self::Gcra(gcra) => {
                let (worth, _) = gcra.refunded(refund.refund(), refund.cost);
                worth >= gcra.increment(refund.cost)
            }
            // A charge of another period is worthless. Without a receipt, the period is unknown.
            Self::Quota(_) => {
                let charged = refund.receipt.and_then(Receipt::stored_charge);
                charged == Some(Charge::Quota(QuotaCharge { start_us: period }))
            }
        }
    }
}

/// Returns the period in which the store has charged a bucket with this state.
pub(super) const fn period_of(state: State) -> u64 {
    match state {
        State::Quota(usage) => usage.start_us,
        _ => 0,
    }
}
