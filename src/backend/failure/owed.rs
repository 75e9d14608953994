//! The local decisions that the store has yet to be charged for.

use super::{debts::Debtor, local::Local};
use crate::{
    algorithm::{Action, Charge},
    backend::MemoryBackend,
    clock::Timestamp,
    decision::{Answer, Outcome, State},
    gcra::{Gcra, Tat, Ticks},
    quota::{Quota, Usage},
    transaction::{Algorithm, Batch, Fingerprint, Member, Receipt},
    window::Window,
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
/// Only [`Local::not_paid`] makes it a debt again, if the store says that it has charged nothing.
pub(super) struct Debt {
    /// The part of the debtor that is paid.
    pub(super) debtor: Debtor,
    pub(super) tokens: u32,
    now: Timestamp,
    bucket: OwingBucket,
    /// The TAT up to which local charges were paid before.
    paid_before: Tat,
}

#[derive(Clone, Copy)]
enum OwingBucket {
    /// The limit of the local decisions, how far the local TAT is beyond the TAT seen at the store, and the highest TAT of
    /// a local charge.
    Gcra { gcra: Gcra, span: Ticks, until: Tat },
    /// The start of the period.
    Quota { start_us: u64 },
    /// With the instant at which the units were taken.
    Window { at: u64 },
}

/// The number of tokens of a debt.
struct OwedTokens(u32, OwingBucket);

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
                (Algorithm::Gcra(gcra), _) => {
                    let (span, _) = gcra.refunded(member.refund(), member.cost);
                    debtor.lowered(span.ceil_micros());
                }
                (Algorithm::Quota(quota), _) => {
                    let refunded = quota.refund(debtor.used, decided.now.as_micros(), member.cost);
                    debtor.used = refunded.unwrap_or(debtor.used);
                }
                (Algorithm::Window(_), Some(Charge::Window(charge))) => {
                    debtor.give_back(charge.at, member.cost);
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
            _ => self.owed(debtor, now).map_or(0, |owed| owed.0),
        }
    }

    fn count_as_charged(&self, member: &Member<'_>, now: Timestamp) {
        if let Algorithm::Gcra(gcra) = self.share.algorithm(member.algorithm) {
            let charged = |seen| gcra.debit(seen, now.as_micros(), member.cost);
            self.seen.change(member, &gcra, now, charged);
        }
    }

    /// Takes out the debt of a bucket, if it has one, and settles it. For a window, it is the debt of the oldest units
    /// only.
    pub(super) fn begin_to_pay(&self, bucket: Fingerprint) -> Option<Debt> {
        // A state that the store has answered before must not be stored after the debt is settled.
        self.store_pending_until(self.own.now().as_micros());
        let debtor = self.debts.take(bucket, |debtor| self.split(debtor))?;
        let now = debtor.at.unwrap_or_else(|| self.own.now());
        let OwedTokens(tokens, owing) = self.owed(&debtor, now).filter(|owed| owed.0 > 0)?;
        if let OwingBucket::Gcra { gcra, span, .. } = &owing {
            let member = debtor.member.lend();
            let charge = |seen| gcra.charge_span(seen, *span, now.as_micros());
            self.seen.change(&member, gcra, now, charge);
        }
        Some(Debt {
            debtor,
            tokens,
            now,
            bucket: owing,
            paid_before: self.debts.paid(bucket, owing.until()),
        })
    }

    /// Leaves only the debt that is paid first. Returns the rest.
    fn split(&self, debtor: &mut Debtor) -> Option<Debtor> {
        let now = debtor.at.unwrap_or_else(|| self.own.now());
        let window = match debtor.member.lend().algorithm {
            Algorithm::Window(window) => *window,
            _ => return None,
        };
        debtor.split_first(|at| counts(&window, at, now))
    }

    fn owed(&self, debtor: &Debtor, now: Timestamp) -> Option<OwedTokens> {
        let member = debtor.member.lend();
        match self.share.algorithm(member.algorithm) {
            Algorithm::Gcra(gcra) => Some(self.owed_by_bucket(debtor, gcra, now)),
            Algorithm::Quota(quota) => Some(owed_by_quota(debtor, &quota, now)),
            Algorithm::Window(window) => {
                let (at, tokens) = live_units(debtor, &window, now).next()?;
                Some(OwedTokens(tokens, OwingBucket::Window { at }))
            }
            Algorithm::Tiers(_) => None,
        }
    }

    fn owed_by_bucket(&self, debtor: &Debtor, gcra: Gcra, now: Timestamp) -> OwedTokens {
        let member = debtor.member.lend();
        let level = |memory: &MemoryBackend| memory.change(&member, &gcra, now, |tat| tat).1;
        // An answer that arrives meanwhile raises `seen` before it raises `own`. In this order, it can make the debt
        // too low, and the rest is paid after the next outage, but never too high.
        let (own, seen) = (level(&self.own), level(&self.seen));
        let span = gcra.beyond(own, seen, now.as_micros());
        // Charges that were followed by refunds have higher TATs than the bucket has now.
        let until = Tat {
            us: own.us.saturating_add(debtor.lowered_us),
            ..own
        };
        let tokens = gcra.tokens_in(span);
        OwedTokens(tokens, OwingBucket::Gcra { gcra, span, until })
    }

    /// Makes a debt owed again, because the store has not charged it. Other charges whose answers have arrived meanwhile are
    /// seen with the next answer.
    pub(super) fn not_paid(&self, debt: Debt) {
        let Debt { debtor, bucket, .. } = debt;
        let member = debtor.member.lend();
        let print = member.fingerprint;
        if let OwingBucket::Gcra { gcra, span, .. } = &bucket {
            let now = debtor.at.unwrap_or_else(|| self.own.now());
            let back = |seen| gcra.refund_span(seen, now.as_micros(), *span);
            self.seen
                .change(&member, gcra, now, |seen| back(seen).unwrap_or(seen));
        }
        self.debts.not_paid(print, bucket.until(), debt.paid_before);
        self.debts.put_back(print, debtor);
    }

    /// Learns the state after the store has charged a debt.
    pub(super) fn paid(&self, debit: &Batch<'_>, debt: &Debt, outcome: &Outcome) {
        // The units of a window are in its history already.
        if !matches!(debt.bucket, OwingBucket::Window { .. }) {
            self.learn(debit, outcome);
        }
    }

    /// Returns whether the store has been charged for a receipt's charge. After that, all receipts of a quota's period
    /// are void.
    pub(super) fn is_paid(&self, member: &Member<'_>, receipt: &Receipt) -> bool {
        let until = match receipt.stored_charge() {
            Some(Charge::Gcra(charge)) => charge.tat,
            Some(Charge::Quota(charge)) => Tat::from_micros(charge.start_us),
            Some(Charge::Window(charge)) => Tat::from_micros(charge.at),
            Some(Charge::Tiers(never)) => match never {},
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
}

impl OwingBucket {
    /// The TAT up to which receipts of local charges refund nothing.
    fn until(&self) -> Tat {
        match *self {
            Self::Gcra { until, .. } => until,
            Self::Quota { start_us } => Tat::from_micros(start_us),
            Self::Window { at } => Tat::from_micros(at),
        }
    }
}

/// The units that were taken here and still count.
fn live_units<'a>(
    debtor: &'a Debtor,
    window: &'a Window,
    now: Timestamp,
) -> impl Iterator<Item = (u64, u32)> {
    let taken = debtor.taken.iter().copied();
    taken.filter(move |(at, units)| *units > 0 && counts(window, *at, now))
}

fn counts(window: &Window, at: u64, now: Timestamp) -> bool {
    u128::from(now.as_micros()) < u128::from(at) + window.window().as_micros()
}

/// A quota owes as long as its period lasts.
fn owed_by_quota(debtor: &Debtor, quota: &Quota, now: Timestamp) -> OwedTokens {
    let Usage { start_us, used } = quota.current(debtor.used, now.as_micros());
    OwedTokens(used, OwingBucket::Quota { start_us })
}
