//! The buckets of one batch, locked.

use std::sync::MutexGuard;

use super::{
    MemoryBackend,
    histories::LockedRecords,
    table::{BucketSlot, Table},
};
use crate::{
    algorithm::{Action, RowValue, State},
    clock::Timestamp,
    decision::{Answer, Buckets},
    few::Count,
    transaction::Claim,
};

/// The locked shards of a batch's buckets, and the place of each bucket in them. Rows are locked before histories, and
/// lower shards before higher ones, so that no two batches wait for each other.
pub(super) struct LockedBuckets<'a, C: Count> {
    rows: C::Of<Option<MutexGuard<'a, Table>>>,
    histories: C::Of<Option<LockedRecords<'a>>>,
    /// In the order of the claims.
    places: C::Of<BucketPlace>,
}

/// The place of a claim's bucket: its shard among the locked ones, and what was found there.
#[derive(Clone, Copy)]
struct BucketPlace {
    shard: usize,
    found: FoundBucket,
}

#[derive(Clone, Copy)]
enum FoundBucket {
    Row {
        value: RowValue,
        slot: Option<BucketSlot>,
    },
    History(Option<usize>),
}

impl BucketPlace {
    const UNKNOWN: Self = Self {
        shard: 0,
        found: FoundBucket::History(None),
    };
}

impl<'a, C: Count> LockedBuckets<'a, C> {
    /// Begins without a lock.
    #[inline(always)]
    pub(super) fn new(len: usize) -> Self {
        Self {
            rows: C::list(len, |_| None),
            histories: C::list(len, |_| None),
            places: C::fill(len, BucketPlace::UNKNOWN),
        }
    }

    /// Locks the shards of all claims, and finds their buckets.
    #[inline(always)]
    pub(super) fn lock(&mut self, backend: &'a MemoryBackend, claims: &[Option<Claim<'_>>]) {
        let mut order = C::fill(claims.len(), (usize::MAX, 0));
        for (place, (claim, turn)) in claims.iter().zip(order.as_mut()).enumerate() {
            let shard = claim.as_ref().map(|claim| backend.shard_of(claim));
            *turn = (shard.unwrap_or(usize::MAX), place);
        }
        sort(order.as_mut());
        let (mut last, mut held) = (usize::MAX, 0);
        for (turn, (number, place)) in order.as_ref().iter().copied().enumerate() {
            if let Some(claim) = &claims[place] {
                held = if number == last { held } else { turn };
                last = number;
                let found = self.find(backend, number, held, claim);
                self.places.as_mut()[place] = BucketPlace { shard: held, found };
            }
        }
    }

    /// Finds a bucket in the shard with this number, which is locked unless it is among the locked ones.
    #[inline(always)]
    fn find(
        &mut self,
        backend: &'a MemoryBackend,
        number: usize,
        held: usize,
        claim: &Claim<'_>,
    ) -> FoundBucket {
        let print = &claim.fingerprint;
        match number.checked_sub(backend.rows.len()) {
            None => {
                let rows = &mut self.rows.as_mut()[held];
                let rows = rows.get_or_insert_with(|| backend.rows.lock(number));
                let (value, slot) = rows.look(print);
                FoundBucket::Row { value, slot }
            }
            Some(number) => {
                let records = &mut self.histories.as_mut()[held];
                let records = records.get_or_insert_with(|| backend.histories.lock(number));
                FoundBucket::History(records.find(print))
            }
        }
    }
}

impl<'b, C: Count> Buckets<'b> for LockedBuckets<'_, C> {
    #[inline(always)]
    fn judge(&self, place: usize, claim: &Claim<'b>, now: Timestamp, answer: &mut Answer) {
        let BucketPlace { shard, found } = self.places.as_ref()[place];
        let (by, ask) = (claim.algorithm, &claim.ask);
        match found {
            FoundBucket::Row { value, .. } => {
                by.judge_row(ask, value, now, |judged| answer.judge(judged));
            }
            FoundBucket::History(entry) => {
                let records = self.histories.as_ref()[shard].as_ref();
                judge_history(records.zip(entry), claim, now, answer);
            }
        }
    }

    #[inline(always)]
    fn untouched(&self, place: usize, claim: &Claim<'b>, now: Timestamp) -> State {
        let BucketPlace { shard, found } = self.places.as_ref()[place];
        let (by, ask) = (claim.algorithm, &claim.ask);
        match found {
            FoundBucket::Row { value, .. } => by.untouched_row(ask, value, now),
            FoundBucket::History(entry) => {
                let records = &self.histories.as_ref()[shard];
                let record = records.as_ref().zip(entry);
                let stored = record.map(|(records, entry)| records.stored(entry));
                by.see(stored, now).untouched(ask, now)
            }
        }
    }

    #[inline(always)]
    fn write(&mut self, place: usize, claim: &Claim<'b>, answer: &Answer, now: Timestamp) {
        let BucketPlace { shard, found } = self.places.as_ref()[place];
        match found {
            FoundBucket::Row { value, slot } => {
                if let Some(rows) = &mut self.rows.as_mut()[shard]
                    && let Some(value) = changed(value, claim, answer, now)
                {
                    rows.put(slot, &claim.fingerprint, value, now);
                }
            }
            FoundBucket::History(found) => {
                if let Some(records) = &mut self.histories.as_mut()[shard] {
                    records.write(found, claim, answer, now);
                }
            }
        }
    }
}

impl MemoryBackend {
    /// Returns the number of a bucket's shard. All shards of histories follow those of rows.
    #[inline(always)]
    fn shard_of(&self, claim: &Claim<'_>) -> usize {
        match claim.algorithm.fits_row() {
            true => self.rows.of(&claim.fingerprint),
            false => self.rows.len() + self.histories.of(&claim.fingerprint),
        }
    }
}

/// Fills in what a claim on a history leads to.
#[inline(never)]
pub(super) fn judge_history(
    record: Option<(&LockedRecords<'_>, usize)>,
    claim: &Claim<'_>,
    now: Timestamp,
    answer: &mut Answer,
) {
    let stored = record.map(|(records, entry)| records.stored(entry));
    let seen = claim.algorithm.see(stored, now);
    seen.judge(&claim.ask, now, |judged| answer.judge(judged));
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
