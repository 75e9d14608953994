//! The part of a quota that a process charges in advance. It expires with its period.

use super::{
    quota::{Quota, Usage},
    receipt::QuotaCharge,
};
use crate::algorithm::{action::Refund, charge::Charge, lease::Leasing};

impl Leasing for Quota {
    fn divisible(&self) -> Result<u32, &'static str> {
        Ok(self.quota)
    }

    fn period_of(&self, usage: Usage) -> u64 {
        usage.start_us
    }

    fn counts_in(&self, period: u64, now: u64) -> bool {
        now < self.per.end(period)
    }

    fn fits(&self, usage: Usage, now: u64, cost: u32) -> bool {
        self.spend(usage, now, cost).is_some()
    }

    fn empty_in(&self, period: u64, _: u64) -> Option<Usage> {
        Some(Usage {
            start_us: period,
            used: self.quota,
        })
    }

    fn after_return(&self, usage: Usage, period: u64, units: u32) -> Usage {
        match usage.start_us == period {
            true => Usage {
                used: usage.used.saturating_sub(units),
                ..usage
            },
            false => usage,
        }
    }

    fn charge_in(&self, period: u64) -> Option<QuotaCharge> {
        Some(QuotaCharge { start_us: period })
    }

    /// A charge of another period is worthless. Without a receipt, the period is unknown.
    fn is_worth(&self, refund: Refund<'_>, _: u32, period: u64) -> bool {
        matches!(refund, Refund::Charge(Charge::Quota(charge)) if charge.start_us == period)
    }
}
