//! The buckets of one batch, locked: rows before histories, so that no two batches wait for each other.

use std::sync::MutexGuard;

use super::{
    MemoryBackend,
    histories::LockedRecords,
    table::{BucketSlot, Table},
};
use crate::{
    algorithm::{Action, RowValue},
    clock::Timestamp,
    decision::{Answer, AnyClaim, Buckets, RowAnswer},
    few::Count,
    transaction::{Claim, Fingerprint, RowCharge},
};

/// A claim on a bucket in memory.
pub(crate) trait MemoryClaim<'a>: AnyClaim<'a> {
    /// Whether its bucket can have a history.
    const CAN_HAVE_HISTORY: bool;

    /// The buckets of a batch of such claims.
    type Locked<'m, C: Count>: Buckets<'a, Self>;

    /// Locks the shards of all claims.
    fn lock<'m, C: Count>(
        backend: &'m MemoryBackend,
        places: &[Self::Place],
    ) -> Self::Locked<'m, C>;
}

/// The number of no shard.
const NOWHERE: usize = usize::MAX;

/// Shards that a batch has locked, lower ones before higher ones, so that no two batches wait for each other.
struct LockedShards<G, C: Count> {
    guards: C::Of<Option<G>>,
    /// For each place of the batch, the place of its guard.
    guard_of: C::Of<usize>,
}

impl<G, C: Count> LockedShards<G, C> {
    /// Locks the shards of a batch's places. `shard_of` returns the number of one, if the place has a bucket here.
    #[inline(always)]
    fn lock(
        len: usize,
        shard_of: impl Fn(usize) -> Option<usize>,
        lock: impl Fn(usize) -> G,
    ) -> Self {
        let mut order = C::fill(len, (NOWHERE, 0));
        for (place, turn) in order.as_mut().iter_mut().enumerate() {
            *turn = (shard_of(place).unwrap_or(NOWHERE), place);
        }
        sort(order.as_mut());
        let mut locked = Self {
            guards: C::list(len, |_| None),
            guard_of: C::fill(len, 0),
        };
        let (mut last, mut held) = (NOWHERE, 0);
        for (turn, (shard, place)) in order.as_ref().iter().copied().enumerate() {
            // The places without a bucket here are the last ones.
            if shard == NOWHERE {
                break;
            }
            if shard != last {
                locked.guards.as_mut()[turn] = Some(lock(shard));
                (last, held) = (shard, turn);
            }
            locked.guard_of.as_mut()[place] = held;
        }
        locked
    }

    #[inline(always)]
    fn at(&self, place: usize) -> Option<&G> {
        self.guards.as_ref()[self.guard_of.as_ref()[place]].as_ref()
    }

    #[inline(always)]
    fn at_mut(&mut self, place: usize) -> Option<&mut G> {
        self.guards.as_mut()[self.guard_of.as_ref()[place]].as_mut()
    }
}

/// The buckets of a batch in rows.
pub(crate) struct LockedRows<'m, C: Count> {
    shards: LockedShards<MutexGuard<'m, Table>, C>,
    /// What was found of each bucket.
    found: C::Of<FoundRow>,
}

#[derive(Clone, Copy)]
struct FoundRow {
    value: RowValue,
    slot: Option<BucketSlot>,
}

impl FoundRow {
    const NOTHING: Self = Self {
        value: RowValue::FULL,
        slot: None,
    };
}

impl<'m, C: Count> LockedRows<'m, C> {
    /// Locks the shards of a batch's places. `print_of` returns the fingerprint of a bucket in a row.
    #[inline(always)]
    fn lock<'p>(
        backend: &'m MemoryBackend,
        len: usize,
        print_of: impl Fn(usize) -> Option<&'p Fingerprint>,
    ) -> Self {
        let shard_of = |place| print_of(place).map(|print| backend.rows.of(print));
        Self {
            shards: LockedShards::lock(len, shard_of, |shard| backend.rows.lock(shard)),
            found: C::fill(len, FoundRow::NOTHING),
        }
    }

    /// Finds the bucket of a place, and returns its value.
    #[inline(always)]
    fn find(&mut self, place: usize, print: &Fingerprint) -> RowValue {
        let Some(rows) = self.shards.at(place) else {
            return RowValue::FULL;
        };
        let (value, slot) = rows.look(print);
        self.found.as_mut()[place] = FoundRow { value, slot };
        value
    }

    /// Returns the value that was found.
    #[inline(always)]
    fn value(&self, place: usize) -> RowValue {
        self.found.as_ref()[place].value
    }

    #[inline(always)]
    fn put(&mut self, place: usize, print: &Fingerprint, value: RowValue, now: Timestamp) {
        let slot = self.found.as_ref()[place].slot;
        if let Some(rows) = self.shards.at_mut(place) {
            rows.put(slot, print, value, now);
        }
    }
}

impl<'a> MemoryClaim<'a> for RowCharge<'a> {
    const CAN_HAVE_HISTORY: bool = false;

    type Locked<'m, C: Count> = LockedRows<'m, C>;

    #[inline(always)]
    fn lock<'m, C: Count>(backend: &'m MemoryBackend, charges: &[Self]) -> LockedRows<'m, C> {
        let print_of = |place: usize| Some(&charges[place].fingerprint);
        LockedRows::lock(backend, charges.len(), print_of)
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
        let value = self.find(place, &charge.fingerprint);
        let charged = charge
            .algorithm
            .and_then(|algorithm| algorithm.charge_row(&charge.ask(), value, now));
        answer.fits = charged.is_some();
        answer.value = charged.unwrap_or(value);
    }

    #[inline(always)]
    fn take_nothing(&self, place: usize, _: &RowCharge<'a>, _: Timestamp, answer: &mut RowAnswer) {
        answer.value = self.value(place);
    }

    #[inline(always)]
    fn write(&mut self, place: usize, charge: &RowCharge<'a>, answer: &RowAnswer, now: Timestamp) {
        self.put(place, &charge.fingerprint, answer.value, now);
    }
}

impl<'a, C: Count> Buckets<'a, Claim<'a>> for LockedRows<'_, C> {
    #[inline(always)]
    fn judge(&mut self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        let value = self.find(place, &claim.fingerprint);
        let by = claim.algorithm;
        by.judge_row(&claim.ask, value, now, |judged| answer.judge(judged));
    }

    #[inline(always)]
    fn take_nothing(&self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        let value = self.value(place);
        let state = claim.algorithm.untouched_row(&claim.ask, value, now);
        answer.take_nothing(state, claim.votes);
    }

    #[inline(always)]
    fn write(&mut self, place: usize, claim: &Claim<'a>, answer: &Answer, now: Timestamp) {
        if let Some(value) = changed(self.value(place), claim, answer, now) {
            self.put(place, &claim.fingerprint, value, now);
        }
    }
}

/// The buckets of a batch with histories.
struct LockedHistories<'m, C: Count> {
    shards: LockedShards<LockedRecords<'m>, C>,
    /// What was found of each bucket.
    found: C::Of<Option<usize>>,
}

impl<'a, C: Count> Buckets<'a, Claim<'a>> for LockedHistories<'_, C> {
    #[inline(always)]
    fn judge(&mut self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        if let Some(records) = self.shards.at(place) {
            let found = records.find(&claim.fingerprint);
            self.found.as_mut()[place] = found;
            records.judge(found, claim, now, answer);
        }
    }

    #[inline(always)]
    fn take_nothing(&self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        if let Some(records) = self.shards.at(place) {
            let seen = records.see(self.found.as_ref()[place], claim, now);
            answer.take_nothing(seen.untouched(&claim.ask, now), claim.votes);
        }
    }

    #[inline(always)]
    fn write(&mut self, place: usize, claim: &Claim<'a>, answer: &Answer, now: Timestamp) {
        let found = self.found.as_ref()[place];
        if let Some(records) = self.shards.at_mut(place) {
            records.write(found, claim, answer, now);
        }
    }
}

/// The buckets of any batch.
pub(crate) struct LockedBuckets<'m, C: Count> {
    rows: LockedRows<'m, C>,
    histories: LockedHistories<'m, C>,
}

impl<'a> MemoryClaim<'a> for Claim<'a> {
    const CAN_HAVE_HISTORY: bool = true;

    type Locked<'m, C: Count> = LockedBuckets<'m, C>;

    #[inline(always)]
    fn lock<'m, C: Count>(
        backend: &'m MemoryBackend,
        places: &[Self::Place],
    ) -> LockedBuckets<'m, C> {
        let (len, histories) = (places.len(), &backend.histories);
        let print_of = |place: usize, in_row: bool| {
            let claim = Self::at(&places[place])?;
            (claim.algorithm.fits_row() == in_row).then_some(&claim.fingerprint)
        };
        let shard_of = |place| print_of(place, false).map(|print| histories.of(print));
        LockedBuckets {
            rows: LockedRows::lock(backend, len, |place| print_of(place, true)),
            histories: LockedHistories {
                shards: LockedShards::lock(len, shard_of, |shard| histories.lock(shard)),
                found: C::fill(len, None),
            },
        }
    }
}

impl<'a, C: Count> Buckets<'a, Claim<'a>> for LockedBuckets<'_, C> {
    #[inline(always)]
    fn judge(&mut self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        match claim.algorithm.fits_row() {
            true => self.rows.judge(place, claim, now, answer),
            false => self.histories.judge(place, claim, now, answer),
        }
    }

    #[inline(always)]
    fn take_nothing(&self, place: usize, claim: &Claim<'a>, now: Timestamp, answer: &mut Answer) {
        match claim.algorithm.fits_row() {
            true => self.rows.take_nothing(place, claim, now, answer),
            false => self.histories.take_nothing(place, claim, now, answer),
        }
    }

    #[inline(always)]
    fn write(&mut self, place: usize, claim: &Claim<'a>, answer: &Answer, now: Timestamp) {
        match claim.algorithm.fits_row() {
            true => self.rows.write(place, claim, answer, now),
            false => self.histories.write(place, claim, answer, now),
        }
    }
}

/// Returns the new value of a row after the answer to a claim that writes, if it changes.
#[inline(always)]
pub(super) fn changed(
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
