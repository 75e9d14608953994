//! The debt of a quota: what was used here. It is owed as long as its period lasts.

use super::quota::{Quota, Usage};
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

    /// The period is that of the local bucket, which receipts name. It can be one that the store has said, and begin later
    /// than now by the clock of this process.
    fn charge_ledger(&self, used: &mut Usage, state: &Usage, cost: u32, now: u64) {
        *used = Usage {
            start_us: state.start_us,
            used: self.current(*used, now).used.saturating_add(cost),
        };
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::quota::Per;

    const T: u64 = 1_767_225_600_000_000;

    #[test]
    fn debt_is_of_the_period_that_receipts_name() {
        let quota = Quota::new(9, Per::first_use(Duration::from_secs(3))).unwrap();
        // The store has said that the period began, by a clock that is ahead of this one.
        let said = Usage {
            start_us: T + 600_000,
            used: 1,
        };
        let (mut own, mut ledger) = (said, quota.ledger().unwrap());
        for later in [0, 40] {
            own = quota.spend(own, T + later, 1).unwrap();
            quota.charge_ledger(&mut ledger, &own, 1, T + later);
        }
        let owed = quota.owed(&ledger, own, said, T + 50).unwrap();
        assert_eq!((owed.units, owed.until.us), (2, own.start_us));
    }

    #[test]
    fn debt_that_was_not_paid_joins_a_later_one_of_its_period() {
        let quota = Quota::new(9, Per::first_use(Duration::from_secs(3))).unwrap();
        let (mut own, mut earlier) = (Usage::NOTHING, quota.ledger().unwrap());
        own = quota.spend(own, T, 2).unwrap();
        quota.charge_ledger(&mut earlier, &own, 2, T);
        let mut later = quota.ledger().unwrap();
        own = quota.spend(own, T + 70, 3).unwrap();
        quota.charge_ledger(&mut later, &own, 3, T + 70);
        quota.merge_ledger(&mut later, earlier);
        assert_eq!(
            later,
            Usage {
                start_us: T,
                used: 5
            }
        );
    }
}
