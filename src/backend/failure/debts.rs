//! The buckets that this process has charged locally, because the store did not answer.

use std::{
    cmp::Reverse,
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use ahash::RandomState;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    algorithm::{Ledger, Share, Tat},
    clock::Timestamp,
    transaction::{Fingerprint, Member, OwnedMember},
};

type Map<T> = HashMap<Fingerprint, T, RandomState>;

/// The most entries of ledgers that are kept, at 16 bytes each. Units that are charged here beyond that are not owed.
const MAX_ENTRIES: usize = 1 << 20;

/// The buckets to charge to the store once it is back. The memories have the amounts.
///
/// The tables change under one lock. A bucket owes from [`add`](Self::add) until [`take`](Self::take) takes out its whole
/// debt, and again after [`put_back`](Self::put_back). `owing` and the number of entries are those of the tables when the
/// lock is released, and a bucket is only recent while it is in the tables.
pub(super) struct Debts {
    tables: Mutex<Tables>,
    /// The number of buckets that owe something.
    owing: AtomicUsize,
    /// The maximum number of buckets. Above it, the buckets that owe the least are dropped.
    kept: usize,
    recent: Recent,
}

/// A bucket that was charged locally.
pub(super) struct UnpaidBucket {
    pub(super) member: OwnedMember,
    /// The smallest share of the limit by which it was charged.
    pub(super) share: Share,
    /// The time of the last charge, if a client's clock was used.
    pub(super) at: Option<Timestamp>,
    /// The local charges, as far as the memories do not have them.
    pub(super) ledger: Ledger,
}

#[derive(Default)]
struct Tables {
    owing: Map<UnpaidBucket>,
    /// The instant up to which the local charges of a bucket have been paid back. Receipts for those charges refund nothing.
    paid: Map<Tat>,
    /// The number of entries of ledgers.
    entries: usize,
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

    /// Returns whether a bucket was added with this share, and has been neither taken out nor forgotten since. May return
    /// false for such a bucket.
    ///
    /// A caller that has charged the bucket before it asks need not add it again: whoever takes the bucket out later
    /// sees the charge.
    #[inline]
    pub(super) fn is_recent(&self, bucket: Fingerprint, share: Share) -> bool {
        self.recent.has(bucket, share)
    }

    /// Adds a bucket that was charged by a share of its limit, at the time of the client's clock, if it can owe anything. Once
    /// there are twice as many as are kept, those with the lowest `amount` are forgotten.
    pub(super) fn add(
        &self,
        member: &Member<'_>,
        (share, at): (Share, Option<Timestamp>),
        charge: impl FnOnce(&mut Ledger),
        amount: impl Fn(&UnpaidBucket) -> u32,
    ) {
        if self.kept == 0 {
            return;
        }
        let mut tables = self.lock();
        let Tables { owing, entries, .. } = &mut *tables;
        let debtor = match owing.entry(member.fingerprint) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => match UnpaidBucket::new(member, share) {
                Some(debtor) => entry.insert(debtor),
                None => return,
            },
        };
        debtor.at = at.max(debtor.at);
        debtor.share = share.min(debtor.share);
        let (by, ledger) = (member.algorithm, &mut debtor.ledger);
        let before = by.entries(ledger);
        charge(ledger);
        *entries = *entries + by.entries(ledger) - before;
        if *entries > MAX_ENTRIES {
            *entries -= usize::from(by.forget_newest(ledger));
        }
        self.recent.add(member.fingerprint, share);
        if owing.len() >= self.kept.saturating_mul(2) {
            self.recent.forget_all();
            keep_largest(owing, self.kept, amount);
            *entries = owing.values().map(UnpaidBucket::entries).sum();
        }
        self.owing.store(owing.len(), Ordering::Relaxed);
    }

    /// Changes the local charges of a bucket, if there are any.
    pub(super) fn change(&self, bucket: Fingerprint, change: impl FnOnce(&mut Ledger)) {
        if let Some(debtor) = self.lock().owing.get_mut(&bucket) {
            change(&mut debtor.ledger);
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
        Some(OwnedMember::from(&debtor.member.as_member()))
    }

    /// Takes out the part of a bucket's debt that is paid first, at the time that `now` returns. The rest stays.
    pub(super) fn take(
        &self,
        bucket: Fingerprint,
        now: impl FnOnce(&UnpaidBucket) -> Timestamp,
    ) -> Option<UnpaidBucket> {
        let mut tables = self.lock();
        self.recent.forget_all();
        let mut debtor = tables.owing.remove(&bucket)?;
        tables.entries -= debtor.entries();
        let now = now(&debtor);
        if let Some(rest) = debtor.split(now) {
            tables.entries += rest.entries();
            tables.owing.insert(bucket, rest);
        }
        self.owing.store(tables.owing.len(), Ordering::Relaxed);
        Some(debtor)
    }

    /// Puts back a debt that was not paid.
    pub(super) fn put_back(&self, bucket: Fingerprint, debtor: UnpaidBucket) {
        let mut tables = self.lock();
        tables.entries += debtor.entries();
        match tables.owing.entry(bucket) {
            Entry::Vacant(entry) => drop(entry.insert(debtor)),
            Entry::Occupied(mut entry) => entry.get_mut().owe_before(debtor),
        }
        self.owing.store(tables.owing.len(), Ordering::Relaxed);
    }

    /// Records that the local charges of a bucket up to an instant are paid back. Returns the instant up to which they
    /// were before.
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

    /// Returns whether the local charge of this instant has been paid back.
    pub(super) fn is_paid(&self, bucket: Fingerprint, charge: Tat) -> bool {
        let tables = self.lock();
        tables.paid.get(&bucket).is_some_and(|paid| charge <= *paid)
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock()
    }
}

/// Some of the buckets that were added last. It is only changed under the lock of the tables.
struct Recent {
    /// A bucket's fingerprint, mixed with the generation and the share.
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

    fn has(&self, bucket: Fingerprint, share: Share) -> bool {
        self.place(bucket).load(Ordering::Relaxed) == self.mixed(bucket, share)
    }

    fn add(&self, bucket: Fingerprint, share: Share) {
        let mixed = self.mixed(bucket, share);
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

    fn mixed(&self, bucket: Fingerprint, share: Share) -> u64 {
        /// Spread generations and shares over all bits.
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        const OTHER: u64 = 0xd1b5_4a32_d192_ed03;
        let generation = self.generation.load(Ordering::Relaxed);
        bucket.low ^ generation.wrapping_mul(ODD) ^ share.bits().wrapping_mul(OTHER)
    }
}

impl UnpaidBucket {
    fn new(member: &Member<'_>, share: Share) -> Option<Self> {
        let ledger = member.algorithm.ledger()?;
        Some(Self {
            member: OwnedMember::from(member),
            share,
            at: None,
            ledger,
        })
    }

    /// Leaves only the debt that is paid first. Returns the debtor of the rest.
    fn split(&mut self, now: Timestamp) -> Option<Self> {
        let member = self.member.as_member();
        let ledger = member.algorithm.split_ledger(&mut self.ledger, now)?;
        Some(Self {
            member: OwnedMember::from(&member),
            share: self.share,
            at: self.at,
            ledger,
        })
    }

    fn entries(&self) -> usize {
        self.member.as_member().algorithm.entries(&self.ledger)
    }

    /// Adds the debts of an earlier entry for the same bucket.
    fn owe_before(&mut self, earlier: Self) {
        self.share = self.share.min(earlier.share);
        let by = self.member.as_member().algorithm;
        by.merge_ledger(&mut self.ledger, earlier.ledger);
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
        let add = |id| debts.add(&member(id), (Share::WHOLE, None), |_| (), |_| 1);
        let is_recent = |id| debts.is_recent(member(id).fingerprint, Share::WHOLE);
        assert!(!is_recent("a"));
        add("a");
        assert!(is_recent("a"));
        debts
            .take(member("a").fingerprint, |_| Timestamp::from_micros(1))
            .unwrap();
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
