//! The buckets of one batch, locked: rows before histories, so that no two batches wait for each other.

use parking_lot::MutexGuard;

use super::{
    MemoryBackend,
    histories::LockedRecords,
    table::{BucketSlot, Table},
};
use crate::{
    algorithm::{Action, RowValue},
    clock::Timestamp,
    decision::{Answer, AnyClaim, Buckets, RowAnswer},
    few::{Count, List},
    transaction::{Claim, RowCharge},
};

/// A claim on a bucket in memory.
pub(crate) trait MemoryClaim<'a>: AnyClaim<'a> {
    /// Whether its bucket can have a history.
    const CAN_HAVE_HISTORY: bool;

    /// The buckets of a batch of such claims.
    type Locked<'m, C: Count>: Buckets<'a, Self>;

    /// Creates the buckets of `len` places, none locked yet.
    fn unlocked<'m, C: Count>(len: usize) -> Self::Locked<'m, C>;

    /// Locks the shards of all claims in place.
    fn lock<'m, C: Count>(
        backend: &'m MemoryBackend,
        places: &[Self::Place],
        locked: &mut Self::Locked<'m, C>,
    );
}

/// The number of no shard.
const NOWHERE: usize = usize::MAX;

/// Shards that a batch has locked, lower ones before higher ones, so that no two batches wait for each other.
struct LockedShards<G, C: Count> {
    guards: C::UpTo<G>,
    /// For each place of the batch, the place of its guard, or [`NOWHERE`].
    guard_of: C::Of<usize>,
}

impl<G, C: Count> LockedShards<G, C> {
    /// Creates the list for `len` places, with no shard locked yet.
    #[inline(always)]
    fn new(len: usize) -> Self {
        Self {
            guards: C::UpTo::default(),
            guard_of: C::fill(len, NOWHERE),
        }
    }

    /// Locks the shards of all places. `shard_of` returns the number of one, or [`NOWHERE`] if the place has no bucket.
    #[inline(always)]
    fn lock(&mut self, shard_of: impl Fn(usize) -> usize, lock: impl Fn(usize) -> G) {
        let len = self.guard_of.as_ref().len();
        let mut order = C::list(len, |place| (shard_of(place), place));
        sort(order.as_mut());
        let (mut last, mut guard) = (NOWHERE, 0);
        for (shard, place) in order.as_ref().iter().copied() {
            // The places without a bucket are the last ones.
            if shard == NOWHERE {
                break;
            }
            if shard != last {
                (last, guard) = (shard, self.guards.len());
                self.guards.add(lock(shard));
            }
            self.guard_of.as_mut()[place] = guard;
        }
    }

    #[inline(always)]
    fn at(&self, place: usize) -> Option<&G> {
        self.guards.get(self.guard_of.as_ref()[place])
    }

    #[inline(always)]
    fn at_mut(&mut self, place: usize) -> Option<&mut G> {
        self.guards.get_mut(self.guard_of.as_ref()[place])
    }
}

/// The buckets of a batch of charges of rows.
pub(crate) struct LockedRows<'m, C: Count> {
    shards: LockedShards<MutexGuard<'m, Table>, C>,
    slots: C::Of<BucketSlot>,
}

impl<'a> MemoryClaim<'a> for RowCharge<'a> {
    const CAN_HAVE_HISTORY: bool = false;

    type Locked<'m, C: Count> = LockedRows<'m, C>;

    #[inline(always)]
    fn unlocked<'m, C: Count>(len: usize) -> LockedRows<'m, C> {
        LockedRows {
            shards: LockedShards::new(len),
            slots: C::fill(len, BucketSlot::NONE),
        }
    }

    #[inline(always)]
    fn lock<'m, C: Count>(
        MemoryBackend { rows, .. }: &'m MemoryBackend,
        charges: &[Self],
        locked: &mut LockedRows<'m, C>,
    ) {
        let shard_of = |place: usize| rows.of(&charges[place].fingerprint);
        locked.shards.lock(shard_of, |shard| rows.lock(shard));
    }
}

impl<'a, C: Count> Buckets<'a, RowCharge<'a>> for LockedRows<'_, C> {
    #[inline(always)]
    fn judge(
        &mut self,
        place: usize,
        charge: &RowCharge<'a>,
        now: Timestamp,
        answer: &mut RowAnswer,
    ) {
        let Some(rows) = self.shards.at(place) else {
            return;
        };
        let (value, slot) = rows.look(&charge.fingerprint);
        self.slots.as_mut()[place] = slot;
        let charged = charge.charged(value, now);
        answer.fits = charged.is_some();
        answer.value = charged.unwrap_or(value);
    }

    #[inline(always)]
    fn take_nothing(
        &self,
        place: usize,
        charge: &RowCharge<'a>,
        _: Timestamp,
        answer: &mut RowAnswer,
    ) {
        // The answer to a charge that does not fit is the stored value already.
        if answer.fits
            && let Some(rows) = self.shards.at(place)
        {
            answer.value = rows.look(&charge.fingerprint).0;
        }
    }

    #[inline(always)]
    fn write(&mut self, place: usize, charge: &RowCharge<'a>, answer: &RowAnswer, now: Timestamp) {
        let slot = self.slots.as_ref()[place];
        if let Some(rows) = self.shards.at_mut(place) {
            rows.charge(slot, &charge.fingerprint, answer.value, now);
        }
    }
}

/// A shard of rows or of histories.
enum LockedShard<'m> {
    Rows(MutexGuard<'m, Table>),
    Histories(LockedRecords<'m>),
}

/// The bucket of a place, as it was found.
#[derive(Clone, Copy)]
enum Found {
    Row(RowValue, BucketSlot),
    History(Option<usize>),
}

/// The buckets of any batch.
pub(crate) struct LockedBuckets<'m, C: Count> {
    shards: LockedShards<LockedShard<'m>, C>,
    found: C::Of<Found>,
}

/// Added to the numbers of shards with histories, which are locked after those with rows.
const HISTORIES: usize = NOWHERE / 2;

impl<'a> MemoryClaim<'a> for Claim<'a> {
    const CAN_HAVE_HISTORY: bool = true;

    type Locked<'m, C: Count> = LockedBuckets<'m, C>;

    #[inline(always)]
    fn unlocked<'m, C: Count>(len: usize) -> LockedBuckets<'m, C> {
        LockedBuckets {
            shards: LockedShards::new(len),
            found: C::fill(len, Found::History(None)),
        }
    }

    #[inline(always)]
    fn lock<'m, C: Count>(
        backend: &'m MemoryBackend,
        places: &[Self::Place],
        locked: &mut LockedBuckets<'m, C>,
    ) {
        let MemoryBackend {
            rows, histories, ..
        } = backend;
        let shard_of = |place: usize| match Self::at(&places[place]) {
            None => NOWHERE,
            Some(claim) if claim.algorithm.fits_row() => rows.of(&claim.fingerprint),
            Some(claim) => HISTORIES + histories.of(&claim.fingerprint),
        };
        let lock = |shard: usize| match shard.checked_sub(HISTORIES) {
            None => LockedShard::Rows(rows.lock(shard)),
            Some(shard) => LockedShard::Histories(histories.lock(shard)),
        };
        locked.shards.lock(shard_of, lock);
    }
}

impl<C: Count> LockedBuckets<'_, C> {
    /// Fills in what a claim leads to, if the value of its row is the one that `from` returns for the stored one.
    #[inline(always)]
    pub(super) fn judge_from(
        &mut self,
        place: usize,
        claim: &Claim<'_>,
        now: Timestamp,
        answer: &mut Answer,
        from: impl FnOnce(RowValue) -> RowValue,
    ) {
        let print = &claim.fingerprint;
        self.found.as_mut()[place] = match self.shards.at(place) {
            None => return,
            Some(LockedShard::Rows(rows)) => {
                let ((stored, slot), by) = (rows.look(print), claim.algorithm);
                let value = from(stored);
                by.judge_row(&claim.ask, value, now, |judged| answer.judge(judged));
                Found::Row(value, slot)
            }
            Some(LockedShard::Histories(records)) => {
                let found = records.find(print);
                records.judge(found, claim, now, answer);
                Found::History(found)
            }
        };
    }
}

impl<'a, C: Count> Buckets<'a, Claim<'a>> for LockedBuckets<'_, C> {
    #[inline(always)]
    fn judge(&mut self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        self.judge_from(place, claim, now, answer, |stored| stored);
    }

    #[inline(always)]
    fn take_nothing(&self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        let ask = &claim.ask;
        let state = match (self.found.as_ref()[place], self.shards.at(place)) {
            (Found::Row(value, _), _) => claim.algorithm.untouched_row(ask, value, now),
            (Found::History(found), Some(LockedShard::Histories(records))) => {
                records.see(found, claim, now).untouched(ask, now)
            }
            _ => return,
        };
        answer.take_nothing(state, claim.votes);
    }

    #[inline(always)]
    fn write(&mut self, place: usize, claim: &Claim<'a>, answer: &Answer, now: Timestamp) {
        match (self.found.as_ref()[place], self.shards.at_mut(place)) {
            (Found::Row(value, slot), Some(LockedShard::Rows(rows))) => {
                if let Some(value) = changed(value, claim, answer, now) {
                    rows.put(slot, &claim.fingerprint, value, now);
                }
            }
            (Found::History(found), Some(LockedShard::Histories(records))) => {
                records.write(found, claim, answer, now);
            }
            _ => {}
        }
    }
}

/// Returns the new value of a row after the answer to a claim that writes, if it changes.
#[inline(always)]
fn changed(
    stored: RowValue,
    claim: &Claim<'_>,
    answer: &Answer,
    now: Timestamp,
) -> Option<RowValue> {
    match claim.ask.action {
        Action::Spend | Action::Debit => Some(claim.algorithm.row(&answer.state)),
        _ => given_back(stored, claim, answer, now),
    }
}

/// Does the same for an answer after which the bucket can be full, or as before.
#[inline(never)]
fn given_back(
    stored: RowValue,
    claim: &Claim<'_>,
    answer: &Answer,
    now: Timestamp,
) -> Option<RowValue> {
    let value = match claim.ask.action {
        Action::Reset => RowValue::FULL,
        _ => claim.algorithm.row(&answer.state),
    };
    (value != stored).then(|| value.unless_full(now))
}

/// Sorts the numbers of shards. A batch seldom has more than four, for which this is the fastest.
#[inline(always)]
pub(super) fn sort(numbers: &mut [(usize, usize)]) {
    if numbers.len() > 4 {
        return numbers.sort_unstable();
    }
    for end in 1..numbers.len() {
        let mut at = end;
        while at > 0 && numbers[at - 1].0 > numbers[at].0 {
            numbers.swap(at - 1, at);
            at -= 1;
        }
    }
}
