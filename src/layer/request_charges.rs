use smallvec::SmallVec;

use crate::transaction::Receipt;

/// The charges of one request to one bucket, each with its receipt, so that each refund goes where its
/// charge went.
#[derive(Debug)]
pub(super) struct RequestCharges {
    /// The total once all changes have been made.
    total: u32,
    /// The receipts that can be refunded, in the order of the charges.
    receipts: SmallVec<[Receipt; 1]>,
    /// The charges that are still in flight.
    on_their_way: u32,
    /// The part of the charges in flight that must be refunded.
    owed: u32,
    /// The charges with an unknown outcome. They are neither refunded nor repeated.
    unknown: UnknownCharges,
}

/// Charges with an unknown outcome.
#[derive(Clone, Copy, Debug, Default)]
struct UnknownCharges {
    /// The part that belongs to the total.
    counted: u32,
    /// The part that no longer belongs to the total, because the total was lowered.
    spare: u32,
}

impl UnknownCharges {
    /// Removes `cost` from the total, and returns the part that did not belong to it.
    fn leave_out(&mut self, cost: u32) -> u32 {
        let part = cost.min(self.counted);
        (self.counted, self.spare) = (self.counted - part, self.spare + part);
        cost - part
    }

    /// Adds `cost` to the total, and returns the part that is missing.
    fn count(&mut self, cost: u32) -> u32 {
        let part = cost.min(self.spare);
        (self.counted, self.spare) = (self.counted + part, self.spare - part);
        cost - part
    }
}

/// A change to make at the store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChargeChange {
    Charge(u32),
    Refund(Receipt),
}

pub(super) type Changes = SmallVec<[ChargeChange; 1]>;

impl RequestCharges {
    pub(super) fn new(total: u32, receipt: Option<Receipt>) -> Self {
        Self {
            total,
            receipts: receipt.into_iter().collect(),
            on_their_way: 0,
            owed: 0,
            unknown: UnknownCharges::default(),
        }
    }

    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// Sets the total, and returns the changes for it. The latest charges are refunded first, and
    /// unconfirmed ones before confirmed ones.
    pub(super) fn settle(&mut self, total: u32) -> Changes {
        let before = std::mem::replace(&mut self.total, total);
        let mut changes = Changes::new();
        if let Some(more) = total.checked_sub(before).filter(|more| *more > 0) {
            let more = self.unknown.count(more);
            let kept = more.min(self.owed);
            self.owed -= kept;
            if more > kept {
                self.on_their_way += more - kept;
                changes.push(ChargeChange::Charge(more - kept));
            }
            return changes;
        }
        let mut less = self.unknown.leave_out(before - total);
        let owed = less.min(self.on_their_way - self.owed);
        self.owed += owed;
        less -= owed;
        while less > 0
            && let Some(last) = self.receipts.last_mut()
        {
            let part = last.split(less);
            less -= part.cost();
            if last.cost() == 0 {
                self.receipts.pop();
            }
            changes.push(ChargeChange::Refund(part));
        }
        changes
    }

    /// Records that a charge of `cost` was granted as `granted`, with its receipt, if any. Returns the part of it to refund
    /// immediately.
    pub(super) fn charged(
        &mut self,
        cost: u32,
        granted: u32,
        receipt: Option<Receipt>,
    ) -> Option<Receipt> {
        self.on_their_way -= cost;
        let missing = cost.saturating_sub(granted);
        let owed = missing.min(self.owed);
        self.owed -= owed;
        self.total = self.total.saturating_sub(missing - owed);
        let mut receipt = receipt?;
        let back = receipt.split(self.owed);
        self.owed -= back.cost();
        if receipt.cost() > 0 {
            self.receipts.push(receipt);
        }
        (back.cost() > 0).then_some(back)
    }

    /// Records a charge of `cost` with an unknown outcome.
    pub(super) fn unknown(&mut self, cost: u32) {
        self.on_their_way -= cost;
        let owed = cost.min(self.owed);
        self.owed -= owed;
        self.unknown.spare += owed;
        self.unknown.counted += cost - owed;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        gcra::{Gcra, Ticks},
        transaction::{AlgorithmKey, LimitKey, LimitSeed, StoredCharge},
    };

    fn receipt(cost: u32) -> Receipt {
        let alice = LimitSeed::of(LimitKey::Number(1)).client("alice");
        let bucket = alice.bucket(AlgorithmKey::Gcra);
        let gcra = Gcra::new(100, 1, Duration::from_secs(1)).unwrap();
        let (tat, short) = (Ticks::default(), Ticks::default());
        let charge = StoredCharge::Gcra { gcra, tat, short };
        Receipt::new(bucket, charge, cost, false)
    }

    fn refunds(changes: &Changes) -> Vec<u32> {
        let changes = changes.iter();
        let cost = |change: &ChargeChange| match change {
            ChargeChange::Refund(receipt) => receipt.cost(),
            ChargeChange::Charge(cost) => panic!("{cost} is charged"),
        };
        changes.map(cost).collect()
    }

    #[test]
    fn refund_takes_the_last_charges_first() {
        let mut charges = RequestCharges::new(5, Some(receipt(5)));
        assert_eq!(charges.settle(8).as_slice(), [ChargeChange::Charge(3)]);
        assert_eq!(charges.charged(3, 3, Some(receipt(3))), None);
        assert_eq!(refunds(&charges.settle(4)), [3, 1]);
        assert_eq!(refunds(&charges.settle(0)), [4]);
        assert!(charges.settle(0).is_empty());
    }

    #[test]
    fn charge_on_its_way_is_refunded_when_it_arrives() {
        let mut charges = RequestCharges::new(0, None);
        assert_eq!(charges.settle(10).as_slice(), [ChargeChange::Charge(10)]);
        assert!(
            charges.settle(4).is_empty(),
            "nothing is there to refund yet"
        );
        assert!(charges.settle(6).is_empty(), "two of six are kept");
        let back = charges.charged(10, 10, Some(receipt(10)));
        assert_eq!(back.unwrap().cost(), 4);
        assert_eq!((charges.total(), refunds(&charges.settle(0))), (6, vec![6]));
    }

    #[test]
    fn charge_that_is_known_not_to_be_made_leaves_the_others_as_they_are() {
        let mut charges = RequestCharges::new(5, Some(receipt(5)));
        assert_eq!(charges.settle(20).as_slice(), [ChargeChange::Charge(15)]);
        assert!(charges.charged(15, 0, None).is_none());
        assert_eq!(charges.total(), 5);
        assert_eq!(charges.settle(8).as_slice(), [ChargeChange::Charge(3)]);
        assert!(charges.charged(3, 3, Some(receipt(3))).is_none());
        assert_eq!(charges.settle(20).as_slice(), [ChargeChange::Charge(12)]);
        // All of the twelve are to be given back, if they are charged, and four of the others.
        assert_eq!(refunds(&charges.settle(4)), [3, 1]);
        assert!(charges.charged(12, 0, None).is_none());
        assert_eq!(charges.total(), 4);
        assert_eq!(charges.settle(9).as_slice(), [ChargeChange::Charge(5)]);
    }

    #[test]
    fn charge_of_unknown_outcome_is_neither_refunded_nor_made_again() {
        let mut charges = RequestCharges::new(5, Some(receipt(5)));
        assert_eq!(charges.settle(20).as_slice(), [ChargeChange::Charge(15)]);
        charges.unknown(15);
        assert_eq!(charges.total(), 20);
        // If nothing of the fifteen was charged, four still are.
        assert_eq!(refunds(&charges.settle(4)), [1]);
        assert!(charges.settle(19).is_empty());
        assert_eq!(charges.settle(20).as_slice(), [ChargeChange::Charge(1)]);
        assert!(charges.charged(1, 1, Some(receipt(1))).is_none());
        assert_eq!(refunds(&charges.settle(2)), [1, 2]);
    }

    #[test]
    fn charge_of_unknown_outcome_that_is_owed_already_keeps_what_is_left() {
        let mut charges = RequestCharges::new(3, Some(receipt(3)));
        assert_eq!(charges.settle(10).as_slice(), [ChargeChange::Charge(7)]);
        assert!(charges.settle(6).is_empty(), "four of seven are owed");
        charges.unknown(7);
        assert_eq!(charges.total(), 6);
        assert!(charges.settle(10).is_empty());
        assert_eq!(charges.settle(12).as_slice(), [ChargeChange::Charge(2)]);
        assert_eq!(refunds(&charges.settle(2)), [1]);
    }

    #[test]
    fn charge_that_was_never_made_is_not_refunded() {
        let mut charges = RequestCharges::new(0, None);
        assert_eq!(charges.settle(10).len(), 1);
        assert!(charges.settle(0).is_empty());
    }
}
