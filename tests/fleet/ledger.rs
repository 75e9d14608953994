//! What the store has charged, as seen at the store.

use std::collections::HashMap;

use tollgate::transaction::{Batch, LimitKey, Member, Mode, Operation};

/// A bucket: the number of its limit, and its id.
pub(crate) type Bucket = (u32, String);

/// The charges of one bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    pub(crate) charged: u64,
    pub(crate) refunded: u64,
    /// Charges whose answers nobody has received, and refunds that have not reached the store.
    pub(crate) lost: u64,
    /// Charges for local decisions, which are whole tokens, rounded up.
    pub(crate) debits: u64,
    pub(crate) resets: u64,
    /// Debits of which nobody knows whether the store has charged them.
    pub(crate) unsure_debits: u64,
    /// What processes have been charged for their local decisions, or may have been, and in how many debits.
    pub(crate) paid: (u64, u64),
}

/// The accounts of all buckets.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: HashMap<Bucket, Account>,
    /// The numbers of the limits with a line.
    lines: Vec<u32>,
    /// All decisions of the store, if somebody wants to compare them.
    pub(crate) trace: Option<Vec<String>>,
}

/// The charges of one call at the store.
pub(crate) type Charges = Vec<(Bucket, u64)>;

impl Ledger {
    pub(crate) fn new(lines: Vec<u32>) -> Self {
        Self {
            lines,
            ..Self::default()
        }
    }

    pub(crate) fn of(&mut self, bucket: Bucket) -> &mut Account {
        self.accounts.entry(bucket).or_default()
    }

    pub(crate) fn get(&self, bucket: &Bucket) -> Account {
        self.accounts.get(bucket).copied().unwrap_or_default()
    }

    /// Records a batch that the store has decided. `passed` has an entry for each member.
    pub(crate) fn executed(&mut self, batch: &Batch<'_>, passed: &[bool]) -> Charges {
        let voters = batch.members.iter().zip(passed);
        let is_denied = voters
            .clone()
            .any(|(member, passed)| member.mode.votes() && !passed);
        let mut charges = Charges::new();
        for (member, passed) in voters {
            let bucket = bucket_of(member);
            let has_line = self.lines.contains(&bucket.0);
            let account = self.of(bucket);
            match batch.operation {
                Operation::Spend if !is_denied && *passed && spends(member) => {
                    account.charged += u64::from(member.cost);
                    account.debits += u64::from(member.mode == Mode::Debit);
                    charges.push((bucket_of(member), member.cost.into()));
                }
                // A bucket without a line that gives nothing back is full again: time has refunded the charge.
                Operation::Refund if *passed || !has_line => {
                    account.refunded += u64::from(member.cost);
                }
                Operation::Reset => account.resets += 1,
                _ => {}
            }
        }
        charges
    }

    /// Records a call of which a process does not know whether it has reached the store.
    pub(crate) fn unsure(&mut self, batch: &Batch<'_>) {
        let debits = batch.members.iter();
        for debit in debits.filter(|member| member.mode == Mode::Debit) {
            self.of(bucket_of(debit)).unsure_debits += u64::from(debit.cost);
        }
    }

    /// Records a debit that no client has asked for.
    pub(crate) fn paid(&mut self, batch: &Batch<'_>) {
        if let [debit] = batch.members
            && batch.operation == Operation::Spend
            && debit.mode == Mode::Debit
        {
            let paid = &mut self.of(bucket_of(debit)).paid;
            *paid = (paid.0 + u64::from(debit.cost), paid.1 + 1);
        }
    }

    /// Records a call that has not reached the store.
    pub(crate) fn not_executed(&mut self, batch: &Batch<'_>) {
        if batch.operation == Operation::Refund {
            for member in batch.members {
                self.of(bucket_of(member)).lost += u64::from(member.cost);
            }
        }
    }

    /// Records charges whose answer nobody has received.
    pub(crate) fn unheard(&mut self, charges: Charges) {
        for (bucket, units) in charges {
            self.of(bucket).lost += units;
        }
    }
}

pub(crate) fn bucket_of(member: &Member<'_>) -> Bucket {
    let number = match member.key.limit {
        LimitKey::Number(number) => number,
        LimitKey::Name(_) => 0,
    };
    (number, member.key.id.to_owned())
}

fn spends(member: &Member<'_>) -> bool {
    member.cost > 0 && member.mode != Mode::CheckOnly
}
