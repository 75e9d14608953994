//! The local decisions that the store has yet to be charged for.

use super::{debts::Debtor, local::Local};
use crate::{
    backend::MemoryBackend,
    clock::Timestamp,
    decision::{Answer, Outcome, State},
    gcra::{Gcra, Tat},
    quota::Quota,
    transaction::{Action, Algorithm, Batch, Member, Receipt, StoredCharge},
    window::Window,
};

/// The debt of a bucket to the store.
#[derive(Debug)]
pub(super) struct Debt {
    pub(super) tokens: u32,
    now: Timestamp,
    bucket: OwingBucket,
}

#[derive(Debug)]
enum OwingBucket {
    /// The limit of the local decisions, and the local TAT.
    Gcra { gcra: Gcra, own: Tat },
    /// The start of the period.
    Quota { start_us: u64 },
    /// With the instant at which the units were taken.
    Window { at: u64 },
}

impl Local {
    /// Records local charges, to pay them back later. Unless it is `certain` that the store has charged nothing, they
    /// are treated as already charged at the store.
    pub(super) fn note_charges(
        &self,
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
            match member.algorithm {
                // Memory has the amount, so a bucket that is already in the table need not be looked up again.
                Algorithm::Gcra(_)
                    if certain
                        && batch.now.is_none()
                        && self.debts.is_recent(member.fingerprint) => {}
                Algorithm::Gcra(_) if certain => self.owe(batch, member, |_| ()),
                Algorithm::Gcra(_) => self.count_as_charged(member, now),
                Algorithm::Quota(quota) if certain => self.owe(batch, member, |debtor| {
                    // A debit takes less than its cost from a bucket that cannot hold more debt.
                    let cost = answer.taken.map_or(member.cost, |taken| taken.cost);
                    debtor.used = quota.debit(debtor.used, now.as_micros(), cost);
                }),
                Algorithm::Window(window) if certain => self.owe(batch, member, |debtor| {
                    while live_units(debtor, window, now).next() != debtor.taken.front().copied() {
                        debtor.taken.pop_front();
                    }
                    if let State::Window(figures) = answer.state {
                        debtor.take(now.as_micros(), figures.change.units());
                    }
                }),
                // Tiers cannot be debited.
                Algorithm::Quota(_) | Algorithm::Window(_) | Algorithm::Tiers(_) => {}
            }
        }
    }

    /// Records local refunds, which are no longer owed.
    pub(super) fn note_refunds(&self, batch: &Batch<'_>, decided: &Outcome) {
        for (member, answer) in batch.members.iter().zip(decided.answers()) {
            let charge = member.receipt.and_then(Receipt::stored_charge);
            let refund = |debtor: &mut Debtor| match (member.algorithm, charge) {
                (Algorithm::Quota(quota), _) => {
                    let refunded = quota.refund(debtor.used, decided.now.as_micros(), member.cost);
                    debtor.used = refunded.unwrap_or(debtor.used);
                }
                (Algorithm::Window(_), Some(StoredCharge::Window { at })) => {
                    debtor.give_back(at.as_micros(), member.cost);
                }
                _ => {}
            };
            if answer.passed {
                self.debts.change(member.fingerprint, refund);
            }
        }
    }

    fn owe(&self, batch: &Batch<'_>, member: &Member<'_>, charge: impl FnOnce(&mut Debtor)) {
        self.debts
            .add(member, batch.now, charge, |debtor| self.amount(debtor));
    }

    /// Returns the total debt of a bucket.
    fn amount(&self, debtor: &Debtor) -> u32 {
        let now = debtor.at.unwrap_or_else(|| self.own.now());
        match debtor.member.lend().algorithm {
            Algorithm::Window(window) => {
                let units = live_units(debtor, window, now).map(|(_, units)| units);
                units.fold(0, u32::saturating_add)
            }
            _ => self.debt(debtor).map_or(0, |debt| debt.tokens),
        }
    }

    fn count_as_charged(&self, member: &Member<'_>, now: Timestamp) {
        if let Algorithm::Gcra(gcra) = self.share.algorithm(member.algorithm) {
            let charged = |seen| gcra.debit(seen, now.as_micros(), member.cost);
            self.seen.change(member, &gcra, now, charged);
        }
    }

    /// Returns the debt of a bucket, if it has one. For a window, it is the debt for the oldest units only.
    pub(super) fn debt(&self, debtor: &Debtor) -> Option<Debt> {
        let member = debtor.member.lend();
        let now = debtor.at.unwrap_or_else(|| self.own.now());
        let debt = match self.share.algorithm(member.algorithm) {
            Algorithm::Gcra(gcra) => self.debt_of_bucket(&member, gcra, now),
            Algorithm::Quota(quota) => debt_of_quota(debtor, &quota, now),
            Algorithm::Window(window) => debt_of_window(debtor, &window, now)?,
            Algorithm::Tiers(_) => return None,
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

    /// Records that the store was asked to charge a debt. The store may have done so, and is not asked again. The local
    /// charges still count in this process, so that further outages do not renew the burst.
    pub(super) fn settled(&self, member: &Member<'_>, debt: &Debt) {
        if let OwingBucket::Gcra { gcra, own } = &debt.bucket {
            self.seen
                .change(member, gcra, debt.now, |seen| seen.max(*own));
        }
    }

    /// Records that the store has charged a debt, and the state after that.
    pub(super) fn paid(&self, debit: &Batch<'_>, debt: &Debt, outcome: &Outcome) {
        let until = match debt.bucket {
            OwingBucket::Gcra { own, .. } => own,
            OwingBucket::Quota { start_us } => Tat::from_micros(start_us),
            OwingBucket::Window { at } => Tat::from_micros(at),
        };
        for member in debit.members {
            self.settled(member, debt);
            self.debts.paid(member.fingerprint, until);
        }
        // The units of a window are in its history already.
        if !matches!(debt.bucket, OwingBucket::Window { .. }) {
            self.learn(debit, outcome);
        }
    }

    /// Returns whether the store has been charged for a receipt's charge. After that, all receipts of a quota's period
    /// are void.
    pub(super) fn is_paid(&self, member: &Member<'_>, receipt: &Receipt) -> bool {
        let until = match receipt.stored_charge() {
            Some(StoredCharge::Gcra { tat, .. }) => tat,
            Some(StoredCharge::Quota { start_us }) => Tat::from_micros(start_us),
            Some(StoredCharge::Window { at }) => Tat::from_micros(at.as_micros()),
            None => return false,
        };
        self.debts.is_paid(member.fingerprint, until)
    }
}

impl Debt {
    /// Returns the age of the units that a window owes; 0 for other limits.
    pub(super) fn ago_us(&self) -> u64 {
        match self.bucket {
            OwingBucket::Window { at } => self.now.as_micros().saturating_sub(at),
            OwingBucket::Gcra { .. } | OwingBucket::Quota { .. } => 0,
        }
    }

    /// Removes this debt from a window's units, which may owe more.
    pub(super) fn strike_off(&self, debtor: &mut Debtor) {
        if let OwingBucket::Window { at } = self.bucket {
            debtor.taken.retain(|(taken, _)| *taken != at);
        }
    }

    /// Returns whether a bucket may owe more than this.
    pub(super) fn is_a_part(&self) -> bool {
        matches!(self.bucket, OwingBucket::Window { .. })
    }
}

/// The units that were taken here and still count.
fn live_units<'a>(
    debtor: &'a Debtor,
    window: &'a Window,
    now: Timestamp,
) -> impl Iterator<Item = (u64, u32)> {
    let now = u128::from(now.as_micros());
    let counts = move |at: u64| now < u128::from(at) + window.window().as_micros();
    let taken = debtor.taken.iter().copied();
    taken.filter(move |(at, units)| *units > 0 && counts(*at))
}

fn debt_of_window(debtor: &Debtor, window: &Window, now: Timestamp) -> Option<Debt> {
    let (at, tokens) = live_units(debtor, window, now).next()?;
    let bucket = OwingBucket::Window { at };
    Some(Debt {
        tokens,
        now,
        bucket,
    })
}

/// Returns the debt of a quota, which exists as long as its period lasts.
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
