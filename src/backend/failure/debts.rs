//! The buckets that this process has charged locally, because the store did not answer.

use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque, hash_map::Entry},
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

/// The most instants that are kept of windows, at 16 bytes each. Units that are charged here beyond that are not owed.
const MAX_TAKEN: usize = 1 << 20;

/// The buckets to charge to the store once it is back. The memories have the amounts.
pub(super) struct Debts {
    tables: Mutex<Tables>,
    /// The number of buckets that owe something.
    owing: AtomicUsize,
    /// The maximum number of buckets. Above it, the buckets that owe the least are dropped.
    kept: usize,
}

/// A bucket that was charged locally.
pub(super) struct Debtor {
    pub(super) member: OwnedMember,
    /// The time of the last charge, if a client's clock was used.
    pub(super) at: Option<Timestamp>,
    /// The local charges to a quota.
    pub(super) used: Usage,
    /// The instants at which units of a window were taken locally, and their numbers, in order.
    pub(super) taken: VecDeque<(u64, u32)>,
}

#[derive(Default)]
struct Tables {
    owing: Map<Debtor>,
    /// The TAT up to which the local charges of a bucket have been paid back. Receipts for those charges refund nothing.
    paid: Map<Tat>,
    /// The number of instants of windows that are kept.
    taken: usize,
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
        charge: impl FnOnce(&mut Debtor),
        amount: impl Fn(&Debtor) -> u32,
    ) {
        if self.kept == 0 {
            return;
        }
        let mut tables = self.lock();
        let Tables { owing, taken, .. } = &mut *tables;
        let debtor = owing
            .entry(member.fingerprint)
            .or_insert_with(|| Debtor::new(member));
        debtor.at = at.max(debtor.at);
        let before = debtor.taken.len();
        charge(debtor);
        *taken = *taken + debtor.taken.len() - before;
        if *taken > MAX_TAKEN {
            *taken -= usize::from(debtor.taken.pop_back().is_some());
        }
        if owing.len() >= self.kept.saturating_mul(2) {
            keep_largest(owing, self.kept, amount);
            *taken = owing.values().map(|debtor| debtor.taken.len()).sum();
        }
        self.owing.store(owing.len(), Ordering::Relaxed);
    }

    /// Changes the local charges of a bucket, if there are any.
    pub(super) fn change(&self, bucket: Fingerprint, change: impl FnOnce(&mut Debtor)) {
        if let Some(debtor) = self.lock().owing.get_mut(&bucket) {
            change(debtor);
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
        tables.taken -= debtor.as_ref().map_or(0, |debtor| debtor.taken.len());
        self.owing.store(tables.owing.len(), Ordering::Relaxed);
        debtor
    }

    /// Puts back a bucket that was not paid for.
    pub(super) fn put_back(&self, bucket: Fingerprint, debtor: Debtor) {
        let mut tables = self.lock();
        tables.taken += debtor.taken.len();
        match tables.owing.entry(bucket) {
            Entry::Vacant(entry) => drop(entry.insert(debtor)),
            Entry::Occupied(mut entry) => entry.get_mut().owe_before(debtor),
        }
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

impl Debtor {
    fn new(member: &Member<'_>) -> Self {
        Self {
            member: OwnedMember::from(member),
            at: None,
            used: Usage::NOTHING,
            taken: VecDeque::new(),
        }
    }

    /// Records units of a window that were taken.
    pub(super) fn take(&mut self, at: u64, units: u32) {
        match self.taken.back_mut() {
            Some((last, taken)) if *last == at => *taken = taken.saturating_add(units),
            _ => self.taken.push_back((at, units)),
        }
    }

    /// Records a refund of units that were taken at an instant.
    pub(super) fn give_back(&mut self, at: u64, units: u32) {
        let mut taken = self.taken.iter_mut();
        if let Some((_, taken)) = taken.find(|(instant, _)| *instant == at) {
            *taken = taken.saturating_sub(units);
        }
    }

    /// Adds the debts of an earlier entry for the same bucket.
    fn owe_before(&mut self, earlier: Self) {
        for taken in earlier.taken.into_iter().rev() {
            self.taken.push_front(taken);
        }
        if self.used.start_us == earlier.used.start_us || self.used == Usage::NOTHING {
            self.used = Usage {
                used: self.used.used.saturating_add(earlier.used.used),
                ..earlier.used
            };
        }
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
