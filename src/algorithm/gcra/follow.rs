//! How a TAT follows that of a store. Both memories change by the same span, so that their difference, which is the debt,
//! only changes with local charges and when a debt is settled.

use std::time::Duration;

use super::{gcra::Gcra, receipt::GcraCharge};
use crate::algorithm::{
    action::{Ask, Refund},
    follow::Following,
    share::Share,
    ticks::{MAX_TICKS_US, Tat},
};

impl Following for Gcra {
    /// The share of the burst, at least 1, and of the rate. So the store's TAT also says how full the share is.
    fn share(&self, share: Share) -> Self {
        let slower = self.period().as_micros() * u128::from(share.of);
        let period = slower
            .div_ceil(share.part.into())
            .try_into()
            .unwrap_or(u64::MAX);
        let part = Self::new(
            share.of(self.burst()),
            self.count(),
            Duration::from_micros(period),
        );
        let part = part.and_then(|part| part.with_max_wait(self.max_wait()));
        part.unwrap_or(*self)
    }

    fn most(&self) -> u32 {
        self.burst()
    }

    /// The line is used up as well.
    fn used_up(&self, ask: &Ask<'_>, now: u64) -> Tat {
        self.horizon(now + self.line_us(ask.joins_line))
    }

    fn instant(charge: &GcraCharge) -> Tat {
        charge.tat
    }

    fn bounded(&self, tat: Tat, now: u64) -> Tat {
        tat.min(Tat::from_micros(now.saturating_add(MAX_TICKS_US)))
    }

    fn is_used(&self, tat: Tat, now: u64) -> bool {
        tat.us >= now
    }

    fn follows_until(&self, tat: Tat) -> u64 {
        tat.us
    }

    fn longest_charge(&self) -> u64 {
        self.tolerance().us.saturating_add(self.max_wait_us())
    }

    fn raised(&self, seen: Tat, answered: Tat) -> Tat {
        seen.max(answered)
    }

    /// If local charges still count, the store's charges are added to them.
    fn followed(&self, own: Tat, [before, after]: [Tat; 2], now: u64) -> Tat {
        match own.us >= now {
            true => self.charge_as(own, before, after, now),
            false => own,
        }
    }

    fn lowered(&self, seen: Tat, least: Tat, refund: Refund<'_>, cost: u32, now: u64) -> Tat {
        let (span, _) = self.refunded(refund, cost);
        let after = self.refund_span(seen, now, span);
        after.unwrap_or(seen).max(least)
    }

    fn lowered_own(&self, own: Tat, seen: [Tat; 3], _: u32, _: Share, now: u64) -> Tat {
        let [before, after, _] = seen;
        match after > before {
            // The answer can have charges that were not seen yet, and more of them than it gives back.
            true => self.followed(own, [before, after], now),
            false => self.refund_as(own, before, after, now),
        }
    }

    fn caught_up(&self, own: Tat, seen: Tat, _: Share) -> Tat {
        own.max(seen)
    }

    fn perhaps_charged(&self, seen: Tat, cost: u32, now: u64) -> Tat {
        self.debit(seen, now, cost)
    }
}
