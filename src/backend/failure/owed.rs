//! The local decisions that the store has yet to be charged for.

use super::{debts::UnpaidBucket, local::Local, settled::SettledDebt};
use crate::{
    algorithm::{Action, Owed, Share, Tat},
    clock::Timestamp,
    decision::{Answer, Outcome, State},
    transaction::{Algorithm, Batch, Fingerprint, Member, Receipt},
};

/// A debt of a bucket that the store is asked to charge.
///
/// It is settled before the store is asked: from then on, the memories count it as charged at the store. So answers of
/// the store change nothing twice, whether they have the debit or not, and in whatever order they arrive:
///
/// - The state that the store answers has the debit: it is not beyond the state in memory, which has it as well.
/// - It does not have the debit yet, or its answer is overtaken by that of the debit: it is lower, and changes nothing.
///   What else it has is in the answer of the debit, too.
///
/// Only [`Local::not_paid`] makes it a debt again, if the store says that it has charged nothing. The charges of others that
/// the debt has hidden meanwhile are then added to both memories.
pub(super) struct Debt {
    /// The part of the debtor that is paid.
    pub(super) debtor: UnpaidBucket,
    pub(super) owed: Owed,
    now: Timestamp,
    settled: SettledDebt,
    /// The limit of the local decisions.
    share: Algorithm,
    /// The instant up to which local charges were paid before.
    paid_before: Tat,
}

impl Local {
    /// Records local charges, to pay them back later. Unless it is `certain` that the store has charged nothing, they
    /// are treated as already charged at the store.
    pub(super) fn note_charges(
        &self,
        share: Share,
        batch: &Batch<'_>,
        now: Timestamp,
        answers: &[Answer],
        certain: bool,
    ) {
        for (member, answer) in batch.members.iter().zip(answers) {
            let takes = matches!(batch.action(member), Action::Spend | Action::Debit);
            if !(answer.known && answer.passed && takes) {
                continue;
            }
            let by = member.algorithm;
            if !certain {
                self.count_as_charged(share, member, now);
                continue;
            }
            // Memory has the amount, so a bucket that is already in the table need not be looked up again.
            let is_noted = by.owes_in_memory()
                && batch.now.is_none()
                && self.debts.is_recent(member.fingerprint, share);
            if !is_noted {
                // A debit takes less than its cost from a bucket that cannot hold more debt.
                let cost = answer.taken.map_or(member.cost, |taken| taken.cost());
                self.debts.add(
                    member,
                    (share, batch.now),
                    |ledger| by.charge_ledger(ledger, answer.state, cost, now),
                    |debtor| self.amount(debtor),
                );
            }
        }
    }

    /// Records local refunds, which are no longer owed.
    pub(super) fn note_refunds(&self, batch: &Batch<'_>, decided: &Outcome) {
        for (member, answer) in batch.members.iter().zip(decided.answers()) {
            if answer.passed {
                let (refund, cost) = (member.refund(), member.cost);
                self.debts.change(member.fingerprint, |ledger| {
                    let by = member.algorithm;
                    by.refund_ledger(ledger, refund, cost, decided.now);
                });
            }
        }
    }

    /// Returns the total debt of a bucket.
    fn amount(&self, debtor: &UnpaidBucket) -> u32 {
        let (share, now) = self.limit_of(debtor);
        let [own, seen] = self.states(debtor, &share, now);
        share.owed_units(&debtor.ledger, own, seen, now)
    }

    fn count_as_charged(&self, share: Share, member: &Member<'_>, now: Timestamp) {
        let by = share.algorithm(member.algorithm);
        if by.fits_row() {
            let charge = |seen| by.perhaps_charged(seen, member.cost, now);
            self.settled.change(&member.fingerprint, charge);
            self.seen.change(&member.fingerprint, &by, now, charge);
        }
    }

    /// Takes out the debt of a bucket, if it has one, and settles it. For a window, it is the debt of the oldest units
    /// only.
    pub(super) fn begin_to_pay(&self, bucket: Fingerprint) -> Option<Debt> {
        // A state that the store has answered before must not be stored after the debt is settled.
        self.store_pending_until(self.own.now().as_micros());
        let debtor = self.debts.take(bucket, |debtor| self.now_of(debtor))?;
        let (share, now) = self.limit_of(&debtor);
        let [own, seen] = self.states(&debtor, &share, now);
        let owed = share.owed(&debtor.ledger, own, seen, now);
        let owed = owed.filter(|owed| owed.units > 0)?;
        let Some(settled) = self.settled.add(bucket, seen) else {
            self.debts.put_back(bucket, debtor);
            return None;
        };
        if share.fits_row() {
            let settle = |seen| share.settled(seen, owed.span, now);
            self.seen.change(&bucket, &share, now, settle);
        }
        Some(Debt {
            debtor,
            owed,
            now,
            settled,
            share,
            paid_before: self.debts.paid(bucket, owed.until),
        })
    }

    /// Returns the limit of the local decisions, by the smallest share, and the time of a debtor. So a bucket that was
    /// charged by different shares owes no more than was charged.
    fn limit_of(&self, debtor: &UnpaidBucket) -> (Algorithm, Timestamp) {
        let share = debtor.share.algorithm(debtor.member.as_member().algorithm);
        (share, self.now_of(debtor))
    }

    fn now_of(&self, debtor: &UnpaidBucket) -> Timestamp {
        debtor.at.unwrap_or_else(|| self.own.now())
    }

    /// Returns the local state of a bucket and the seen one; those of unused buckets for a history.
    fn states(&self, debtor: &UnpaidBucket, share: &Algorithm, now: Timestamp) -> [State; 2] {
        let print = debtor.member.as_member().fingerprint;
        // An answer that arrives meanwhile raises `seen` before it raises `own`. In this order, it can make the debt
        // too low, and the rest is paid after the next outage, but never too high.
        [&self.own, &self.seen].map(|memory| memory.change(&print, share, now, |state| state).1)
    }

    /// Makes a debt owed again, because the store has not charged it.
    pub(super) fn not_paid(&self, debt: Debt) {
        let Debt {
            debtor,
            owed,
            share,
            settled,
            ..
        } = debt;
        let print = debtor.member.as_member().fingerprint;
        if share.fits_row() {
            let now = self.now_of(&debtor);
            let unsettle = |seen| settled.state().unwrap_or(seen);
            let (before, after) = self.seen.change(&print, &share, now, unsettle);
            let reveal = |own| share.revealed(own, [before, after], owed.span, now);
            let (_, own) = self.own.change(&print, &share, now, reveal);
            self.pending.extend(share.follows_until(own));
        }
        self.debts.not_paid(print, owed.until, debt.paid_before);
        self.debts.put_back(print, debtor);
    }

    /// Learns the state after the store has charged a debt.
    pub(super) fn paid(&self, debit: &Batch<'_>, debt: &Debt, outcome: &Outcome) {
        // A history has the units already.
        if debt.share.fits_row() {
            self.learn(debit, outcome);
        }
    }

    /// Returns whether the store has been charged for a receipt's charge. After that, all receipts of a quota's period
    /// are void.
    pub(super) fn is_paid(&self, member: &Member<'_>, receipt: &Receipt) -> bool {
        let charge = receipt.stored_charge();
        charge.is_some_and(|charge| self.debts.is_paid(member.fingerprint, charge.instant()))
    }
}

impl Debt {
    /// Returns how long ago the owed units were taken, if the store has to charge them for that instant; otherwise 0.
    pub(super) fn ago_us(&self) -> u64 {
        let now = self.now.as_micros();
        self.owed.taken_at.map_or(0, |at| now.saturating_sub(at))
    }
}
