use smallvec::SmallVec;

use crate::transaction::Receipt;

/// What one request has taken from one bucket, as the charges that it is made of, so that each refund goes where its
/// charge went.
#[derive(Debug)]
pub(super) struct RequestCharges {
    /// What is charged once all changes have been made.
    total: u32,
    /// What can be refunded, in the order of the charges.
    receipts: SmallVec<[Receipt; 1]>,
    /// What is to be refunded of charges that are still on their way.
    owed: u32,
}

/// What is left to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Charge(u32),
    Refund(Receipt),
}

pub(super) type Changes = SmallVec<[Change; 1]>;

impl RequestCharges {
    pub(super) fn new(total: u32, receipt: Option<Receipt>) -> Self {
        Self {
            total,
            receipts: receipt.into_iter().collect(),
            owed: 0,
        }
    }

    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// Notes that `total` is charged, and returns what is left to do for it. What was charged last is refunded first.
    pub(super) fn settle(&mut self, total: u32) -> Changes {
        let before = std::mem::replace(&mut self.total, total);
        let mut changes = Changes::new();
        if let Some(more) = total.checked_sub(before).filter(|more| *more > 0) {
            let kept = more.min(self.owed);
            self.owed -= kept;
            if more > kept {
                changes.push(Change::Charge(more - kept));
            }
            return changes;
        }
        let mut less = before - total;
        while less > 0
            && let Some(last) = self.receipts.last_mut()
        {
            let part = last.split(less);
            less -= part.cost();
            if last.cost() == 0 {
                self.receipts.pop();
            }
            changes.push(Change::Refund(part));
        }
        self.owed += less;
        changes
    }

    /// Takes back that `cost` is charged: it is known that it was not.
    pub(super) fn not_charged(&mut self, cost: u32) {
        let owed = cost.min(self.owed);
        self.owed -= owed;
        self.total = self.total.saturating_sub(cost - owed);
    }

    /// Adds a charge that has been made, and returns what is to be refunded of it at once.
    pub(super) fn add(&mut self, mut receipt: Receipt) -> Option<Receipt> {
        let back = receipt.split(self.owed);
        self.owed -= back.cost();
        if receipt.cost() > 0 {
            self.receipts.push(receipt);
        }
        (back.cost() > 0).then_some(back)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        gcra::{Gcra, Tat},
        transaction::{Charge, LimitKey, LimitSeed},
    };

    fn receipt(cost: u32) -> Receipt {
        let bucket = LimitSeed::of(LimitKey::Number(1)).bucket("alice");
        let gcra = Gcra::new(100, 1, Duration::from_secs(1)).unwrap();
        let tat = Tat::default();
        Receipt::new(bucket, Charge::Gcra { gcra, tat }, cost, false)
    }

    fn refunds(changes: &Changes) -> Vec<u32> {
        let changes = changes.iter();
        let cost = |change: &Change| match change {
            Change::Refund(receipt) => receipt.cost(),
            Change::Charge(cost) => panic!("{cost} is charged"),
        };
        changes.map(cost).collect()
    }

    #[test]
    fn refund_takes_the_last_charges_first() {
        let mut charges = RequestCharges::new(5, Some(receipt(5)));
        assert_eq!(charges.settle(8).as_slice(), [Change::Charge(3)]);
        assert_eq!(charges.add(receipt(3)), None);
        assert_eq!(refunds(&charges.settle(4)), [3, 1]);
        assert_eq!(refunds(&charges.settle(0)), [4]);
        assert!(charges.settle(0).is_empty());
    }

    #[test]
    fn charge_on_its_way_is_refunded_when_it_arrives() {
        let mut charges = RequestCharges::new(0, None);
        assert_eq!(charges.settle(10).as_slice(), [Change::Charge(10)]);
        assert!(
            charges.settle(4).is_empty(),
            "nothing is there to refund yet"
        );
        assert!(charges.settle(6).is_empty(), "two of six are kept");
        assert_eq!(charges.add(receipt(10)).unwrap().cost(), 4);
        assert_eq!((charges.total(), refunds(&charges.settle(0))), (6, vec![6]));
    }

    #[test]
    fn charge_that_is_known_not_to_be_made_leaves_the_others_as_they_are() {
        let mut charges = RequestCharges::new(5, Some(receipt(5)));
        assert_eq!(charges.settle(20).as_slice(), [Change::Charge(15)]);
        charges.not_charged(15);
        assert_eq!(charges.total(), 5);
        assert_eq!(charges.settle(8).as_slice(), [Change::Charge(3)]);
        assert!(charges.add(receipt(3)).is_none());
        assert_eq!(charges.settle(20).as_slice(), [Change::Charge(12)]);
        assert_eq!(refunds(&charges.settle(4)), [3, 5]);
        // Four of the twelve were to stay charged, and the others to be given back.
        charges.not_charged(12);
        assert_eq!(charges.total(), 0);
        assert_eq!(charges.settle(9).as_slice(), [Change::Charge(9)]);
    }

    #[test]
    fn charge_that_was_never_made_is_not_refunded() {
        let mut charges = RequestCharges::new(0, None);
        assert_eq!(charges.settle(10).len(), 1);
        assert!(charges.settle(0).is_empty());
    }
}
