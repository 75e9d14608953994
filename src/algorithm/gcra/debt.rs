//! The debt of a GCRA bucket: how far the local TAT is beyond the one that was seen at the store.

use super::gcra::Gcra;
use crate::algorithm::{
    action::Refund,
    debt::{Owed, Owing},
    ticks::{Tat, Ticks},
};

impl Owing for Gcra {
    /// How far refunds have lowered the local TAT, in microseconds, rounded up.
    type Ledger = u64;

    const IS_IN_MEMORY: bool = true;

    fn ledger(&self) -> Option<u64> {
        Some(0)
    }

    fn charge_ledger(&self, _: &mut u64, _: &Tat, _: u32, _: u64) {}

    fn refund_ledger(&self, lowered: &mut u64, refund: Refund<'_>, cost: u32, _: u64) {
        let (span, _) = self.refunded(refund, cost);
        *lowered = lowered.saturating_add(span.ceil_micros());
    }

    fn lower_ledger(&self, lowered: &mut u64, before: Tat, after: Tat) {
        if after < before {
            *lowered = lowered.saturating_add(before.us - after.us + 1);
        }
    }

    fn owed(&self, lowered: &u64, own: Tat, seen: Tat, now: u64) -> Option<Owed> {
        let span = self.beyond(own, seen, now);
        Some(Owed {
            units: self.tokens_in(span),
            // Charges that were followed by refunds have higher TATs than the bucket has now.
            until: Tat {
                us: own.us.saturating_add(*lowered),
                ..own
            },
            span,
            taken_at: None,
        })
    }

    fn merge_ledger(&self, lowered: &mut u64, earlier: u64) {
        *lowered = lowered.saturating_add(earlier);
    }

    fn settled(&self, seen: Tat, span: Ticks, now: u64) -> Tat {
        self.charge_span(seen, span, now)
    }

    fn revealed(&self, own: Tat, [with, without]: [Tat; 2], span: Ticks, now: u64) -> Tat {
        let hidden = self.beyond(self.add(without, span), with, now);
        self.charge_span(own, hidden, now)
    }
}
