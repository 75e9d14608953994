//! The debt of a quota: what was used here. It is owed as long as its period lasts.

use super::{Quota, Usage};
use crate::algorithm::{
    action::Refund,
    debt::{Owed, Owing},
    ticks::{Tat, Ticks},
};

impl Owing for Quota {
    /// The local charges.
    type Ledger = Usage;

    fn ledger(&self) -> Option<Usage> {
        Some(Usage::NOTHING)
    }

    fn charge_ledger(&self, used: &mut Usage, _: &Usage, cost: u32, now: u64) {
        *used = self.debit(*used, now, cost);
    }

    fn refund_ledger(&self, used: &mut Usage, _: Refund<'_>, cost: u32, now: u64) {
        *used = self.refund(*used, now, cost).unwrap_or(*used);
    }

    fn owed(&self, used: &Usage, _: Usage, _: Usage, now: u64) -> Option<Owed> {
        let Usage { start_us, used } = self.current(*used, now);
        Some(Owed {
            units: used,
            until: Tat::from_micros(start_us),
            span: Ticks::default(),
            taken_at: None,
        })
    }

    fn merge_ledger(&self, used: &mut Usage, earlier: Usage) {
        if used.start_us == earlier.start_us || *used == Usage::NOTHING {
            *used = Usage {
                used: used.used.saturating_add(earlier.used),
                ..earlier
            };
        }
    }
}
