use smallvec::SmallVec;

use crate::transaction::Receipt;

/// The charges of one request to one bucket, each with its receipt, so that each refund goes where its
/// charge went.
#[derive(Debug)]
pub(super) struct RequestCharges {
    /// The total once all changes have been made.
    total: u32,
    /// The receipts that can be refunded, in the order of the charges.
    receipts: Receipts,
    /// The receipts of charges that no longer belong to the total, but that the store has not given back.
    kept: Receipts,
    /// The charges that are still in flight.
    on_their_way: u32,
    /// The part of the charges in flight that must be refunded.
    owed: u32,
    /// The refunds that are still in flight.
    returning: u32,
    /// The part of the refunds in flight that belongs to the total again.
    reclaimed: u32,
    /// The changes with an unknown outcome. They are neither undone nor repeated.
    unknown: UnknownCharges,
}

/// Charges that may have been made, and refunds that may not have been made.
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

type Receipts = SmallVec<[Receipt; 1]>;

pub(super) type Changes = SmallVec<[ChargeChange; 1]>;

impl RequestCharges {
    pub(super) fn new(total: u32, receipt: Option<Receipt>) -> Self {
        Self {
            total,
            receipts: receipt.into_iter().collect(),
            kept: Receipts::new(),
            on_their_way: 0,
            owed: 0,
            returning: 0,
            reclaimed: 0,
            unknown: UnknownCharges::default(),
        }
    }

    /// Returns the charge once all changes have been made, including what the store has not given back.
    pub(super) fn charge(&self) -> u32 {
        let kept = self.kept.iter().map(Receipt::cost);
        kept.fold(self.total, u32::saturating_add)
    }

    /// Sets the total, and returns the changes for it. The latest charges are refunded first, and
    /// unconfirmed ones before confirmed ones.
    pub(super) fn settle(&mut self, total: u32) -> Changes {
        let before = std::mem::replace(&mut self.total, total);
        match total.checked_sub(before) {
            Some(more) if more > 0 => self.raise(more).into_iter().collect(),
            _ => self.lower(before - total),
        }
    }

    /// Returns the charge for a higher total. What has been charged and not given back is not charged again.
    fn raise(&mut self, more: u32) -> Option<ChargeChange> {
        let mut more = self.unknown.count(more);
        let wanted = more.min(self.owed);
        self.owed -= wanted;
        more -= wanted;
        while more > 0
            && let Some(part) = split_last(&mut self.kept, more)
        {
            more -= part.cost();
            self.receipts.push(part);
        }
        let wanted = more.min(self.returning - self.reclaimed);
        self.reclaimed += wanted;
        more -= wanted;
        self.charge_more(more)
    }

    fn charge_more(&mut self, more: u32) -> Option<ChargeChange> {
        self.on_their_way += more;
        (more > 0).then_some(ChargeChange::Charge(more))
    }

    /// Returns the refunds for a lower total. What the store has not given back before is tried again.
    fn lower(&mut self, less: u32) -> Changes {
        let mut less = self.unknown.leave_out(less);
        let unwanted = less.min(self.reclaimed);
        self.reclaimed -= unwanted;
        less -= unwanted;
        let owed = less.min(self.on_their_way - self.owed);
        self.owed += owed;
        less -= owed;
        let mut back = std::mem::take(&mut self.kept);
        while less > 0
            && let Some(part) = split_last(&mut self.receipts, less)
        {
            less -= part.cost();
            back.push(part);
        }
        let back = back.into_iter();
        back.map(|receipt| self.give_back(receipt)).collect()
    }

    fn give_back(&mut self, receipt: Receipt) -> ChargeChange {
        self.returning += receipt.cost();
        ChargeChange::Refund(receipt)
    }

    /// Records the answer to a refund, which has given back this many tokens. The others stay charged. Returns the
    /// charge for tokens that were given back and belong to the total again.
    pub(super) fn refunded(&mut self, mut receipt: Receipt, given: u32) -> Option<ChargeChange> {
        let reclaimed = self.returned(receipt.cost());
        drop(receipt.split(given));
        let stays = receipt.split(reclaimed);
        let missing = reclaimed - stays.cost();
        if stays.cost() > 0 {
            self.receipts.push(stays);
        }
        if receipt.cost() > 0 {
            self.kept.push(receipt);
        }
        self.charge_more(missing)
    }

    /// Records a refund of `cost` with an unknown outcome.
    pub(super) fn unknown_refund(&mut self, cost: u32) {
        let reclaimed = self.returned(cost);
        self.unknown.counted += reclaimed;
        self.unknown.spare += cost - reclaimed;
    }

    /// Ends a refund of `cost`. Returns the part of it that belongs to the total again.
    fn returned(&mut self, cost: u32) -> u32 {
        self.returning -= cost;
        let reclaimed = cost.min(self.reclaimed);
        self.reclaimed -= reclaimed;
        reclaimed
    }

    /// Records that a charge of `cost` was granted as `granted`, with its receipt, if any. Returns the refund of the part
    /// that no longer belongs to the total.
    pub(super) fn charged(
        &mut self,
        cost: u32,
        granted: u32,
        receipt: Option<Receipt>,
    ) -> Option<ChargeChange> {
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
        (back.cost() > 0).then(|| self.give_back(back))
    }

    /// Records that a change was not made.
    pub(super) fn not_made(&mut self, change: ChargeChange) {
        let next = match change {
            ChargeChange::Charge(cost) => self.charged(cost, 0, None),
            ChargeChange::Refund(receipt) => self.refunded(receipt, 0),
        };
        debug_assert_eq!(next, None, "nothing has changed");
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

/// Splits at most `cost` tokens off the last receipt, and removes it if nothing is left of it.
fn split_last(receipts: &mut Receipts, cost: u32) -> Option<Receipt> {
    let last = receipts.last_mut()?;
    let part = last.split(cost);
    if last.cost() == 0 {
        receipts.pop();
    }
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limit, Limiter, Limits, MemoryBackend};

    fn receipt(cost: u32) -> Receipt {
        let limits = Limits::builder().limit("few", Limit::per_day(100));
        let limits = limits.build().expect("a limit in code");
        let limiter = Limiter::new(limits, MemoryBackend::new());
        let few = limiter.limit("few").expect("it is known").cost(cost);
        let charged = few.try_spend("alice").expect("memory does not wait");
        let receipt = charged.expect("it is decided").receipt();
        receipt.expect("it is charged")
    }

    fn refunds(changes: &Changes) -> Vec<u32> {
        let changes = changes.iter();
        let cost = |change: &ChargeChange| match change {
            ChargeChange::Refund(receipt) => receipt.cost(),
            ChargeChange::Charge(cost) => panic!("{cost} is charged"),
        };
        changes.map(cost).collect()
    }

    fn refund(change: Option<ChargeChange>) -> Receipt {
        match change {
            Some(ChargeChange::Refund(receipt)) => receipt,
            other => panic!("{other:?}"),
        }
    }

    /// Records that the store has given back everything, or nothing.
    fn answered(charges: &mut RequestCharges, changes: Changes, is_given: bool) -> Changes {
        let answers = changes.into_iter().filter_map(|change| match change {
            ChargeChange::Refund(receipt) => {
                let given = receipt.cost() * u32::from(is_given);
                charges.refunded(receipt, given)
            }
            ChargeChange::Charge(cost) => panic!("{cost} is charged"),
        });
        answers.collect()
    }

    /// Lowers the total, and records that the store has given back everything.
    fn refunded(charges: &mut RequestCharges, total: u32) -> Vec<u32> {
        let changes = charges.settle(total);
        let refunds = refunds(&changes);
        assert!(answered(charges, changes, true).is_empty());
        refunds
    }

    #[test]
    fn refund_that_gives_nothing_stays_charged_and_is_not_charged_again() {
        let mut charges = RequestCharges::new(10, Some(receipt(10)));
        let changes = charges.settle(4);
        assert_eq!(refunds(&changes), [6]);
        assert!(answered(&mut charges, changes, false).is_empty());
        assert_eq!(charges.charge(), 10);
        assert!(charges.settle(7).is_empty(), "three of the six");
        assert_eq!(charges.charge(), 10);
        assert!(charges.settle(10).is_empty());
        assert_eq!(charges.settle(12).as_slice(), [ChargeChange::Charge(2)]);
        assert_eq!(charges.charged(2, 2, Some(receipt(2))), None);
        assert_eq!(charges.charge(), 12);
        let changes = charges.settle(0);
        assert_eq!(refunds(&changes).iter().sum::<u32>(), 12);
        assert!(answered(&mut charges, changes, true).is_empty());
        assert_eq!(charges.charge(), 0);
    }

    #[test]
    fn refund_that_gave_nothing_is_tried_again_by_the_next_settlement() {
        let mut charges = RequestCharges::new(10, Some(receipt(10)));
        for total in [4, 4, 1] {
            let changes = charges.settle(total);
            assert_eq!(refunds(&changes).iter().sum::<u32>(), 10 - total);
            assert!(answered(&mut charges, changes, false).is_empty());
            assert_eq!(charges.charge(), 10);
        }
        let changes = charges.settle(1);
        assert!(answered(&mut charges, changes, true).is_empty());
        assert_eq!(charges.charge(), 1);
        assert!(charges.settle(1).is_empty(), "all of it is given back");
    }

    #[test]
    fn part_that_is_not_given_back_stays_charged() {
        let mut charges = RequestCharges::new(10, Some(receipt(10)));
        let mut changes = charges.settle(4);
        assert_eq!(charges.refunded(refund(changes.pop()), 2), None);
        assert_eq!(charges.charge(), 8);
        assert_eq!(charges.settle(10).as_slice(), [ChargeChange::Charge(2)]);
    }

    #[test]
    fn total_that_is_raised_during_a_refund_is_charged_by_its_answer() {
        for is_given in [true, false] {
            let mut charges = RequestCharges::new(10, Some(receipt(10)));
            let changes = charges.settle(4);
            assert!(charges.settle(9).is_empty(), "the answer says what to do");
            assert!(charges.settle(8).is_empty());
            let more = answered(&mut charges, changes, is_given);
            match is_given {
                true => {
                    assert_eq!(more.as_slice(), [ChargeChange::Charge(4)]);
                    assert_eq!(charges.charged(4, 4, Some(receipt(4))), None);
                    assert_eq!(charges.charge(), 8);
                }
                false => {
                    assert!(more.is_empty());
                    assert_eq!(charges.charge(), 10);
                    assert!(charges.settle(10).is_empty());
                }
            }
        }
    }

    #[test]
    fn refund_of_unknown_outcome_is_neither_repeated_nor_undone() {
        let mut charges = RequestCharges::new(10, Some(receipt(10)));
        assert_eq!(refunds(&charges.settle(4)), [6]);
        charges.unknown_refund(6);
        assert!(charges.settle(4).is_empty());
        assert!(charges.settle(10).is_empty());
        assert_eq!(charges.settle(11).as_slice(), [ChargeChange::Charge(1)]);
        assert_eq!(charges.charged(1, 1, Some(receipt(1))), None);
        assert_eq!(refunds(&charges.settle(0)), [1, 4]);
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
        assert_eq!(refund(back).cost(), 4);
        assert_eq!(
            (charges.charge(), refunds(&charges.settle(0))),
            (6, vec![6])
        );
    }

    #[test]
    fn charge_that_is_known_not_to_be_made_leaves_the_others_as_they_are() {
        let mut charges = RequestCharges::new(5, Some(receipt(5)));
        assert_eq!(charges.settle(20).as_slice(), [ChargeChange::Charge(15)]);
        assert!(charges.charged(15, 0, None).is_none());
        assert_eq!(charges.charge(), 5);
        assert_eq!(charges.settle(8).as_slice(), [ChargeChange::Charge(3)]);
        assert!(charges.charged(3, 3, Some(receipt(3))).is_none());
        assert_eq!(charges.settle(20).as_slice(), [ChargeChange::Charge(12)]);
        // All of the twelve are to be given back, if they are charged, and four of the others.
        assert_eq!(refunded(&mut charges, 4), [3, 1]);
        assert!(charges.charged(12, 0, None).is_none());
        assert_eq!(charges.charge(), 4);
        assert_eq!(charges.settle(9).as_slice(), [ChargeChange::Charge(5)]);
    }

    #[test]
    fn charge_of_unknown_outcome_is_neither_refunded_nor_made_again() {
        let mut charges = RequestCharges::new(5, Some(receipt(5)));
        assert_eq!(charges.settle(20).as_slice(), [ChargeChange::Charge(15)]);
        charges.unknown(15);
        assert_eq!(charges.charge(), 20);
        // If nothing of the fifteen was charged, four still are.
        assert_eq!(refunded(&mut charges, 4), [1]);
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
        assert_eq!(charges.charge(), 6);
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
