//! How the usage of a quota follows that of a store. A share is used in the same proportion as the whole.

use super::{
    quota::{Quota, Usage},
    receipt::QuotaCharge,
};
use crate::algorithm::{action::Refund, follow::Following, share::Share, ticks::Tat};

impl Following for Quota {
    fn share(&self, share: Share) -> Self {
        let quota = share.of(self.quota);
        Self { quota, ..*self }
    }

    fn most(&self) -> u32 {
        self.quota
    }

    /// All receipts of a period have the same instant.
    fn instant(charge: &QuotaCharge) -> Tat {
        Tat::from_micros(charge.start_us)
    }

    fn is_used(&self, usage: Usage, now: u64) -> bool {
        self.current(usage, now) != Usage::NOTHING
    }

    fn raised(&self, seen: Usage, answered: Usage) -> Usage {
        match (answered.start_us, answered.used) > (seen.start_us, seen.used) {
            true => answered,
            false => seen,
        }
    }

    fn lowered(&self, _: Usage, least: Usage, _: Refund<'_>, _: u32, _: u64) -> Usage {
        least
    }

    fn lowered_own(
        &self,
        own: Usage,
        seen: [Usage; 3],
        cost: u32,
        share: Share,
        now: u64,
    ) -> Usage {
        let [before, _, refunded] = seen;
        // A refund that leaves something has given back its whole cost, also of charges that were not seen yet. One that
        // leaves nothing may have had less to give back, and the rest would be taken from local charges.
        let before = match refunded.used {
            0 => before.used,
            used => used.saturating_add(cost),
        };
        let given = share.of(before).saturating_sub(share.of(refunded.used));
        self.refund(own, now, given).unwrap_or(own)
    }

    fn caught_up(&self, own: Usage, seen: Usage, share: Share) -> Usage {
        let used = share.of(seen.used);
        match own {
            Usage::NOTHING => Usage { used, ..seen },
            own => Usage {
                used: own.used.max(used),
                ..own
            },
        }
    }
}
