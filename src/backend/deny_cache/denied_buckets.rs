use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::{
    denied_bucket::DeniedBucket,
    give_backs::{GiveBacks, open_until},
};
use crate::{clock::Timestamp, decision::State, transaction::Fingerprint};

/// A table of a fixed size of buckets that were denied.
pub(super) struct DeniedBuckets {
    sets: Box<[Mutex<Set>]>,
    /// For each set, a byte of the fingerprint of each entry, or 0 if there is none. Almost all buckets are not there, which
    /// these words show without touching the much larger sets. They change under the lock of their set.
    tags: Box<[AtomicU64]>,
    give_backs: GiveBacks,
}

/// The entries that can hold the same bucket.
type Set = [DeniedBucket; WAYS];

/// The number of entries in a set, one for each byte of its tags.
const WAYS: usize = 8;

impl DeniedBuckets {
    pub(super) fn with_capacity(buckets: usize) -> Self {
        let sets = buckets.div_ceil(WAYS).max(1);
        Self {
            sets: (0..sets)
                .map(|_| Mutex::new([const { DeniedBucket::NOBODY }; WAYS]))
                .collect(),
            tags: (0..sets).map(|_| AtomicU64::new(0)).collect(),
            give_backs: GiveBacks::new(),
        }
    }

    /// Returns the first state that `denial` returns for an entry of the bucket.
    #[inline]
    pub(super) fn find(
        &self,
        print: &Fingerprint,
        denial: impl Fn(&DeniedBucket) -> Option<State>,
    ) -> Option<State> {
        if !has_tag(self.tags_of(print).load(Ordering::Relaxed), tag(print)) {
            return None;
        }
        let set = self.lock(print);
        let mut entries = set.iter().filter(|entry| entry.print == *print);
        entries.find_map(denial)
    }

    /// Returns the number of give-backs so far to the class of the bucket.
    pub(super) fn given_back(&self, print: &Fingerprint) -> u32 {
        self.give_backs.so_far(print)
    }

    /// Adds a denial that was asked for at `asked`, when `given_back` give-backs had been counted. It is dropped if
    /// something has been given back since, or may still be.
    pub(super) fn put(&self, entry: DeniedBucket, given_back: u32, asked: Timestamp) {
        let print = entry.print;
        let mut set = self.lock(&print);
        let blocks =
            |old: &DeniedBucket| old.print == print && old.is_unsettled() && old.until > asked;
        if self.give_backs.so_far(&print) == given_back && !set.iter().any(blocks) {
            self.replace(&mut set, entry);
        }
    }

    /// Forgets the denials of a bucket, counts a give-back, and returns the number of those before it.
    pub(super) fn forget(&self, print: &Fingerprint) -> u32 {
        self.forget_in(&mut self.lock(print), print)
    }

    /// Forgets the denials of a bucket, and adds none of them for a while.
    pub(super) fn leave_unsettled(&self, print: &Fingerprint, now: Timestamp) {
        let mut set = self.lock(print);
        self.forget_in(&mut set, print);
        let entry = DeniedBucket::unsettled(*print, open_until(now));
        self.replace(&mut set, entry);
    }

    fn forget_in(&self, set: &mut Set, print: &Fingerprint) -> u32 {
        let before = self.give_backs.count(print);
        let is_denial = |entry: &DeniedBucket| entry.print == *print && !entry.is_unsettled();
        while let Some(place) = set.iter().position(is_denial) {
            self.set(set, place, print, DeniedBucket::NOBODY);
        }
        before
    }

    /// Replaces the entry of the same bucket and cost, or else the one that expires first.
    fn replace(&self, set: &mut Set, entry: DeniedBucket) {
        let print = entry.print;
        let same = set.iter().position(|old| old.is_replaced_by(&entry));
        let place = same.unwrap_or_else(|| {
            let soonest = set.iter().enumerate().min_by_key(|(_, old)| old.until);
            soonest.map_or(0, |(place, _)| place)
        });
        self.set(set, place, &print, entry);
    }

    /// Changes an entry in the set of a fingerprint.
    fn set(&self, set: &mut Set, place: usize, print: &Fingerprint, entry: DeniedBucket) {
        let tags = self.tags_of(print);
        let mut bytes = tags.load(Ordering::Relaxed).to_le_bytes();
        bytes[place] = match entry.print == *print {
            true => tag(print),
            false => 0,
        };
        tags.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        set[place] = entry;
    }

    fn lock(&self, print: &Fingerprint) -> MutexGuard<'_, Set> {
        let set = &self.sets[self.place(print)];
        set.lock()
    }

    fn tags_of(&self, print: &Fingerprint) -> &AtomicU64 {
        &self.tags[self.place(print)]
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
    fn place(&self, print: &Fingerprint) -> usize {
        print.low as usize % self.sets.len()
    }
}

/// Returns the byte that represents a fingerprint in its set.
const fn tag(print: &Fingerprint) -> u8 {
    match print.high.to_le_bytes()[7] {
        0 => 1,
        tag => tag,
    }
}

fn has_tag(tags: u64, tag: u8) -> bool {
    tags.to_le_bytes().contains(&tag)
}
