//! What this process has decided alone, and the store is to be charged for.

use super::{debts::Debtor, local::Local};
use crate::{
    backend::MemoryBackend,
    clock::Timestamp,
    decision::Outcome,
    gcra::{Gcra, Tat},
    quota::{Quota, Usage},
    transaction::{Action, Algorithm, Batch, Charge, Member, Receipt},
};

/// What a bucket owes the store.
#[derive(Debug)]
pub(super) struct Debt {
    pub(super) tokens: u32,
    now: Timestamp,
    bucket: OwingBucket,
}

#[derive(Debug)]
enum OwingBucket {
    /// With the limit by which it is decided here, and what was decided here.
    Gcra { gcra: Gcra, own: Tat },
    /// With the start of the period.
    Quota { start_us: u64 },
}

impl Local {
    /// Notes what was charged here, for when the store is back. Unless it is `certain` that the store has charged nothing,
    /// it is as if the store had.
    pub(super) fn note_charges(&self, batch: &Batch<'_>, decided: &Outcome, certain: bool) {
        for (member, answer) in batch.members.iter().zip(decided.answers()) {
            let takes = matches!(batch.action(member), Action::Spend | Action::Debit);
            if !(answer.known && answer.passed && takes) {
                continue;
            }
            let (now, cost) = (decided.now, member.cost);
            match member.algorithm {
                Algorithm::Gcra(_) if certain => self.owe(batch, member, |used| used),
                Algorithm::Gcra(_) => self.count_as_charged(member, now),
                Algorithm::Quota(quota) if certain => {
                    let charge = |used| quota.debit(used, now.as_micros(), cost);
                    self.owe(batch, member, charge);
                }
                // Units of a window count from their own instants, and tiers give no part of a debit.
                Algorithm::Quota(_) | Algorithm::Window(_) | Algorithm::Tiers(_) => {}
            }
        }
    }

    /// Notes what was refunded here: it is not owed any more.
    pub(super) fn note_refunds(&self, batch: &Batch<'_>, decided: &Outcome) {
        for (member, answer) in batch.members.iter().zip(decided.answers()) {
            if let Algorithm::Quota(quota) = member.algorithm
                && answer.passed
            {
                let now = decided.now.as_micros();
                let refund = |used| quota.refund(used, now, member.cost).unwrap_or(used);
                self.debts.change(member.fingerprint, refund);
            }
        }
    }

    fn owe(&self, batch: &Batch<'_>, member: &Member<'_>, charge: impl Fn(Usage) -> Usage) {
        let amount = |debtor: &Debtor| self.debt(debtor).map_or(0, |debt| debt.tokens);
        self.debts.add(member, batch.now, charge, amount);
    }

    fn count_as_charged(&self, member: &Member<'_>, now: Timestamp) {
        if let Algorithm::Gcra(gcra) = self.share.algorithm(member.algorithm) {
            let charged = |seen| gcra.debit(seen, now.as_micros(), member.cost);
            self.seen.change(member, &gcra, now, charged);
        }
    }

    /// What a bucket owes the store, if it owes anything.
    pub(super) fn debt(&self, debtor: &Debtor) -> Option<Debt> {
        let member = debtor.member.lend();
        let now = debtor.at.unwrap_or_else(|| self.own.now());
        let debt = match self.share.algorithm(member.algorithm) {
            Algorithm::Gcra(gcra) => self.debt_of_bucket(&member, gcra, now),
            Algorithm::Quota(quota) => debt_of_quota(debtor, &quota, now),
            Algorithm::Window(_) | Algorithm::Tiers(_) => return None,
        };
        (debt.tokens > 0).then_some(debt)
    }

    fn debt_of_bucket(&self, member: &Member<'_>, gcra: Gcra, now: Timestamp) -> Debt {
        let level = |memory: &MemoryBackend| memory.change(member, &gcra, now, |tat| tat).1;
        let (own, seen) = (level(&self.own), level(&self.seen));
        Debt {
            tokens: gcra.owes_beyond(own, seen, now.as_micros()),
            now,
            bucket: OwingBucket::Gcra { gcra, own },
        }
    }

    /// Notes that the store was asked to charge a debt, and perhaps did: it is not asked again. What was decided here still
    /// counts here, so that no number of outages renews it.
    pub(super) fn settled(&self, member: &Member<'_>, debt: &Debt) {
        if let OwingBucket::Gcra { gcra, own } = &debt.bucket {
            self.seen
                .change(member, gcra, debt.now, |seen| seen.max(*own));
        }
    }

    /// Notes that the store has charged a debt, and what it has come to.
    pub(super) fn paid(&self, debit: &Batch<'_>, debt: &Debt, outcome: &Outcome) {
        let until = match debt.bucket {
            OwingBucket::Gcra { own, .. } => own,
            OwingBucket::Quota { start_us } => Tat::from_micros(start_us),
        };
        for member in debit.members {
            self.settled(member, debt);
            self.debts.paid(member.fingerprint, until);
        }
        self.learn(debit, outcome);
    }

    /// Whether the store has been charged for what a receipt is of. All receipts of a quota's period are void after that.
    pub(super) fn is_paid(&self, member: &Member<'_>, receipt: &Receipt) -> bool {
        let until = match receipt.stored_charge() {
            Some(Charge::Gcra { tat, .. }) => tat,
            Some(Charge::Quota { start_us }) => Tat::from_micros(start_us),
            Some(Charge::Window { .. }) | None => return false,
        };
        self.debts.is_paid(member.fingerprint, until)
    }
}

/// What was charged here counts for the store as long as its period lasts.
fn debt_of_quota(debtor: &Debtor, quota: &Quota, now: Timestamp) -> Debt {
    let used = quota.current(debtor.used, now.as_micros());
    Debt {
        tokens: used.used,
        now,
        bucket: OwingBucket::Quota {
            start_us: used.start_us,
        },
    }
}
