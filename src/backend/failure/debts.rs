//! The buckets that this process has charged locally, because the store did not answer.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use ahash::RandomState;

use crate::{
    clock::Timestamp,
    gcra::Tat,
    quota::Usage,
    transaction::{Fingerprint, Member, OwnedMember},
};

type Map<T> = HashMap<Fingerprint, T, RandomState>;

/// The buckets to charge to the store once it is back. The memories have the amounts.
pub(super) struct Debts {
    tables: Mutex<Tables>,
    /// The number of buckets that owe something.
    owing: AtomicUsize,
    /// The most buckets that are kept. If there are more, those that owe most stay.
    kept: usize,
}

/// A bucket that was charged locally.
pub(super) struct Debtor {
    pub(super) member: OwnedMember,
    /// The time of the last charge, if a client's clock was used.
    pub(super) at: Option<Timestamp>,
    /// The local charges to a quota.
    pub(super) used: Usage,
}

#[derive(Default)]
struct Tables {
    owing: Map<Debtor>,
    /// The TAT up to which the local charges of a bucket have been paid back. Receipts for those charges refund nothing.
    paid: Map<Tat>,
}

impl Debts {
    pub(super) fn new(kept: usize) -> Self {
        Self {
            tables: Mutex::default(),
            owing: AtomicUsize::new(0),
            kept,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.owing.load(Ordering::Relaxed) == 0
    }

    /// Adds a bucket that was charged. Once there are twice as many as are kept, those with the lowest `amount` are
    /// forgotten.
    pub(super) fn add(
        &self,
        member: &Member<'_>,
        at: Option<Timestamp>,
        charge: impl Fn(Usage) -> Usage,
        amount: impl Fn(&Debtor) -> u32,
    ) {
        if self.kept == 0 {
            return;
        }
        let mut tables = self.lock();
        let owing = &mut tables.owing;
        if let Some(debtor) = owing.get_mut(&member.fingerprint) {
            debtor.at = at.max(debtor.at);
            debtor.used = charge(debtor.used);
            return;
        }
        let debtor = Debtor {
            member: OwnedMember::from(member),
            at,
            used: charge(Usage::NOTHING),
        };
        owing.insert(member.fingerprint, debtor);
        if owing.len() >= self.kept.saturating_mul(2) {
            keep_largest(owing, self.kept, amount);
        }
        self.owing.store(owing.len(), Ordering::Relaxed);
    }

    /// Changes the local charges to a quota, if there are any.
    pub(super) fn change(&self, bucket: Fingerprint, change: impl Fn(Usage) -> Usage) {
        if let Some(debtor) = self.lock().owing.get_mut(&bucket) {
            debtor.used = change(debtor.used);
        }
    }

    /// Returns the buckets that owe something.
    pub(super) fn buckets(&self) -> Vec<Fingerprint> {
        self.lock().owing.keys().copied().collect()
    }

    /// Takes a bucket out in order to pay for it.
    pub(super) fn take(&self, bucket: Fingerprint) -> Option<Debtor> {
        let mut tables = self.lock();
        let debtor = tables.owing.remove(&bucket);
        self.owing.store(tables.owing.len(), Ordering::Relaxed);
        debtor
    }

    /// Puts back a bucket that was not paid for.
    pub(super) fn put_back(&self, bucket: Fingerprint, debtor: Debtor) {
        let mut tables = self.lock();
        tables.owing.entry(bucket).or_insert(debtor);
        self.owing.store(tables.owing.len(), Ordering::Relaxed);
    }

    /// Records that the local charges of a bucket up to a TAT have been paid back.
    pub(super) fn paid(&self, bucket: Fingerprint, until: Tat) {
        let mut tables = self.lock();
        let paid = tables.paid.entry(bucket).or_default();
        *paid = until.max(*paid);
        if tables.paid.len() >= self.kept.saturating_mul(2) {
            keep_largest(&mut tables.paid, self.kept, |until| until.us);
        }
    }

    /// Returns whether the local charge that moved a bucket to this TAT has been paid back.
    pub(super) fn is_paid(&self, bucket: Fingerprint, tat: Tat) -> bool {
        let tables = self.lock();
        tables.paid.get(&bucket).is_some_and(|paid| tat <= *paid)
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints the number of buckets only, because their ids can be personal data.
impl fmt::Debug for Debts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debts")
            .field("owing", &self.owing)
            .field("kept", &self.kept)
            .finish_non_exhaustive()
    }
}

/// Keeps the `most` entries with the largest keys.
#[cold]
fn keep_largest<T, K: Ord + Copy>(map: &mut Map<T>, most: usize, key: impl Fn(&T) -> K) {
    let mut keys: Vec<_> = map
        .iter()
        .map(|(bucket, value)| (key(value), *bucket))
        .collect();
    if most >= keys.len() {
        return;
    }
    keys.select_nth_unstable_by_key(most, |(key, _)| Reverse(*key));
    for (_, bucket) in keys.drain(most..) {
        map.remove(&bucket);
    }
}
