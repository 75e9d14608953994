//! The buckets that this process has charged locally, because the store did not answer.

use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt, mem,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
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
    recent: Recent,
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
    /// How far refunds have lowered the local TAT of a GCRA bucket, in microseconds, rounded up.
    pub(super) lowered_us: u64,
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
            recent: Recent::new(),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.owing.load(Ordering::Relaxed) == 0
    }

    /// Returns whether a bucket owes something.
    pub(super) fn owes(&self, bucket: Fingerprint) -> bool {
        !self.is_empty() && self.lock().owing.contains_key(&bucket)
    }

    /// Returns whether a bucket was added, and has been neither taken out nor forgotten since. May return false for such a
    /// bucket.
    ///
    /// A caller that has charged the bucket before it asks need not add it again: whoever takes the bucket out later
    /// sees the charge.
    #[inline]
    pub(super) fn is_recent(&self, bucket: Fingerprint) -> bool {
        self.recent.has(bucket)
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
        self.recent.add(member.fingerprint);
        if owing.len() >= self.kept.saturating_mul(2) {
            self.recent.forget_all();
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

    /// Returns the buckets that owe something, in an order that does not depend on the keys of the table.
    pub(super) fn buckets(&self) -> Vec<Fingerprint> {
        let mut buckets: Vec<_> = self.lock().owing.keys().copied().collect();
        buckets.sort_unstable_by_key(|bucket| (bucket.low, bucket.high));
        buckets
    }

    /// Returns the bucket that a debtor owes for.
    pub(super) fn member(&self, bucket: Fingerprint) -> Option<OwnedMember> {
        let tables = self.lock();
        let debtor = tables.owing.get(&bucket)?;
        Some(OwnedMember::from(&debtor.member.lend()))
    }

    /// Takes out the part of a bucket's debt that is paid first. `split` returns the rest, which stays.
    pub(super) fn take(
        &self,
        bucket: Fingerprint,
        split: impl FnOnce(&mut Debtor) -> Option<Debtor>,
    ) -> Option<Debtor> {
        let mut tables = self.lock();
        self.recent.forget_all();
        let mut debtor = tables.owing.remove(&bucket)?;
        tables.taken -= debtor.taken.len();
        if let Some(rest) = split(&mut debtor) {
            tables.taken += rest.taken.len();
            tables.owing.insert(bucket, rest);
        }
        self.owing.store(tables.owing.len(), Ordering::Relaxed);
        Some(debtor)
    }

    /// Puts back a debt that was not paid.
    pub(super) fn put_back(&self, bucket: Fingerprint, debtor: Debtor) {
        let mut tables = self.lock();
        tables.taken += debtor.taken.len();
        match tables.owing.entry(bucket) {
            Entry::Vacant(entry) => drop(entry.insert(debtor)),
            Entry::Occupied(mut entry) => entry.get_mut().owe_before(debtor),
        }
        self.owing.store(tables.owing.len(), Ordering::Relaxed);
    }

    /// Records that the local charges of a bucket up to a TAT are paid back. Returns the TAT up to which they were
    /// before.
    pub(super) fn paid(&self, bucket: Fingerprint, until: Tat) -> Tat {
        let mut tables = self.lock();
        let paid = tables.paid.entry(bucket).or_default();
        let before = *paid;
        *paid = until.max(before);
        if tables.paid.len() >= self.kept.saturating_mul(2) {
            keep_largest(&mut tables.paid, self.kept, |until| until.us);
        }
        before
    }

    /// Takes back the record of a payment that was not made, unless there was a later one.
    pub(super) fn not_paid(&self, bucket: Fingerprint, until: Tat, before: Tat) {
        let mut tables = self.lock();
        if let Some(paid) = tables.paid.get_mut(&bucket).filter(|paid| **paid == until) {
            *paid = before;
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

/// Some of the buckets that were added last. It is only changed under the lock of the tables.
struct Recent {
    /// A bucket's fingerprint, mixed with the generation.
    buckets: Box<[AtomicU64]>,
    generation: AtomicU64,
}

impl Recent {
    const PLACES: usize = 1024;

    fn new() -> Self {
        Self {
            buckets: (0..Self::PLACES).map(|_| AtomicU64::new(0)).collect(),
            generation: AtomicU64::new(1),
        }
    }

    fn has(&self, bucket: Fingerprint) -> bool {
        self.place(bucket).load(Ordering::Relaxed) == self.mixed(bucket)
    }

    fn add(&self, bucket: Fingerprint) {
        let mixed = self.mixed(bucket);
        self.place(bucket).store(mixed, Ordering::Relaxed);
    }

    /// Forgets all buckets. A thread that has charged one of them since sees this, because both have locked the bucket
    /// in memory: the thread to charge it, and the caller of this function to read its debt afterwards.
    fn forget_all(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
    fn place(&self, bucket: Fingerprint) -> &AtomicU64 {
        &self.buckets[bucket.high as usize % Self::PLACES]
    }

    fn mixed(&self, bucket: Fingerprint) -> u64 {
        /// Spreads the generations over all bits.
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        bucket.low ^ self.generation.load(Ordering::Relaxed).wrapping_mul(ODD)
    }
}

impl Debtor {
    fn new(member: &Member<'_>) -> Self {
        Self {
            member: OwnedMember::from(member),
            at: None,
            used: Usage::NOTHING,
            taken: VecDeque::new(),
            lowered_us: 0,
        }
    }

    /// Leaves only the units of the first instant for which `counts` is true. Returns the debtor of the later ones.
    pub(super) fn split_first(&mut self, counts: impl Fn(u64) -> bool) -> Option<Self> {
        let mut later = mem::take(&mut self.taken);
        let owed = |(at, units): &(u64, u32)| *units > 0 && counts(*at);
        while let Some(first) = later.pop_front() {
            if owed(&first) {
                self.taken.push_back(first);
                break;
            }
        }
        (!later.is_empty()).then(|| Self {
            member: OwnedMember::from(&self.member.lend()),
            at: self.at,
            used: Usage::NOTHING,
            taken: later,
            lowered_us: 0,
        })
    }

    /// Records a refund from a GCRA bucket.
    pub(super) fn lowered(&mut self, by_us: u64) {
        self.lowered_us = self.lowered_us.saturating_add(by_us);
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
        self.lowered(earlier.lowered_us);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Limit,
        transaction::{BucketKey, LimitKey, Mode},
    };

    #[test]
    fn bucket_is_recent_until_one_is_taken_out_or_forgotten() {
        let limit = Limit::per_second(1);
        let member = |id| {
            let key = BucketKey::new(LimitKey::Number(1), id);
            Member::new(key, limit.algorithm().unwrap(), 1, Mode::CheckAndSpend)
        };
        let debts = Debts::new(2);
        let add = |id| debts.add(&member(id), None, |_| (), |_| 1);
        let is_recent = |id| debts.is_recent(member(id).fingerprint);
        assert!(!is_recent("a"));
        add("a");
        assert!(is_recent("a"));
        debts.take(member("a").fingerprint, |_| None).unwrap();
        assert!(!is_recent("a"));
        add("a");
        add("b");
        assert!(is_recent("b"));
        add("c");
        add("d");
        // Two of the four are forgotten.
        assert!(["a", "b", "c", "d"].into_iter().all(|id| !is_recent(id)));
    }
}
