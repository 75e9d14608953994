//! Tokens that a process charges in advance. They never expire.

use super::{gcra::Gcra, receipt::GcraCharge};
use crate::algorithm::{
    action::Refund,
    lease::Leasing,
    ticks::{Tat, Ticks},
};

impl Leasing for Gcra {
    fn divisible(&self) -> Result<u32, &'static str> {
        match self.max_wait_us() {
            0 => Ok(self.burst()),
            _ => Err("a limit with `max_wait` cannot be leased, because its line is at the store"),
        }
    }

    fn fits(&self, tat: Tat, now: u64, cost: u32) -> bool {
        self.spend(tat, now, cost).is_some()
    }

    fn empty_in(&self, _: u64, now: u64) -> Option<Tat> {
        Some(self.horizon(now))
    }

    fn after_return(&self, tat: Tat, _: u64, units: u32) -> Tat {
        self.before_part(tat, units, Ticks::default())
    }

    /// The time of the charge matters only to a line, and a limit with a line has no leases.
    fn charge_in(&self, _: u64) -> Option<GcraCharge> {
        Some(GcraCharge {
            gcra: *self,
            tat: Tat::default(),
            short: Ticks::default(),
        })
    }

    /// A charge by a limit with cheaper tokens is worth less.
    fn is_worth(&self, refund: Refund<'_>, cost: u32, _: u64) -> bool {
        let (worth, _) = self.refunded(refund, cost);
        worth >= self.increment(cost)
    }
}
