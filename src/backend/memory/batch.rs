//! The buckets of one batch, locked.

use std::sync::MutexGuard;

use super::{
    MemoryBackend,
    histories::LockedRecords,
    table::{BucketSlot, Table},
};
use crate::{
    algorithm::{Action, Ask, Judged, RowValue, State},
    clock::Timestamp,
    decision::Answer,
    few::Count,
    transaction::Member,
};

/// The locked shards of a batch's buckets, and the place of each bucket in them. Rows are locked before histories, and
/// lower shards before higher ones, so that no two batches wait for each other.
pub(super) struct LockedBuckets<'a, C: Count> {
    shards: C::Of<Option<LockedShard<'a>>>,
    /// In the order of the members.
    places: C::Of<BucketPlace>,
}

enum LockedShard<'a> {
    Rows(MutexGuard<'a, Table>),
    Histories(LockedRecords<'a>),
}

/// The place of a member's bucket: its shard among the locked ones, and what was found there.
#[derive(Clone, Copy)]
struct BucketPlace {
    shard: usize,
    found: FoundBucket,
}

#[derive(Clone, Copy)]
enum FoundBucket {
    /// The member has no bucket.
    None,
    Row {
        value: RowValue,
        slot: Option<BucketSlot>,
    },
    History(Option<usize>),
}

/// The number of the shard of no bucket.
const NO_SHARD: usize = usize::MAX;

impl<'a, C: Count> LockedBuckets<'a, C> {
    /// Begins without a lock.
    #[inline(always)]
    pub(super) fn new(len: usize) -> Self {
        Self {
            shards: C::fill(len, || None),
            places: C::fill(len, || BucketPlace {
                shard: 0,
                found: FoundBucket::None,
            }),
        }
    }

    /// Locks the shards of all members, and finds their buckets.
    #[inline(always)]
    pub(super) fn lock<'m>(
        &mut self,
        backend: &'a MemoryBackend,
        len: usize,
        member: impl Fn(usize) -> Option<&'m Member<'m>>,
    ) {
        let mut order = C::fill(len, || (NO_SHARD, 0));
        for (place, turn) in order.as_mut().iter_mut().enumerate() {
            if let Some(member) = member(place) {
                *turn = (backend.shard_of(member), place);
            }
        }
        sort(order.as_mut());
        let (mut locked, mut held) = (NO_SHARD, 0);
        for (turn, (number, place)) in order.as_ref().iter().copied().enumerate() {
            let Some(member) = member(place).filter(|_| number != NO_SHARD) else {
                continue;
            };
            if number != locked {
                self.shards.as_mut()[turn] = Some(backend.lock(number));
                (locked, held) = (number, turn);
            }
            if let Some(shard) = &self.shards.as_ref()[held] {
                self.places.as_mut()[place] = BucketPlace {
                    shard: held,
                    found: shard.find(member),
                };
            }
        }
    }

    /// Returns what a request for the bucket at a place leads to, if the batch passes.
    #[inline(always)]
    pub(super) fn judge(
        &self,
        place: usize,
        member: &Member<'_>,
        ask: Ask<'_>,
        now: Timestamp,
    ) -> Judged<State> {
        let BucketPlace { shard, found } = self.places.as_ref()[place];
        match found {
            FoundBucket::Row { value, .. } => member.algorithm.judge_row(ask, value, now),
            _ => self.judge_history(shard, found, member, ask, now),
        }
    }

    #[inline(always)]
    fn judge_history(
        &self,
        shard: usize,
        found: FoundBucket,
        member: &Member<'_>,
        ask: Ask<'_>,
        now: Timestamp,
    ) -> Judged<State> {
        match (found, &self.shards.as_ref()[shard]) {
            (FoundBucket::History(entry), Some(LockedShard::Histories(records))) => {
                records.see(entry, member, now).judge(ask, now)
            }
            _ => member.algorithm.see(None, now).judge(ask, now),
        }
    }

    /// Returns the state of the bucket at a place if nothing is taken from it.
    #[inline(never)]
    pub(super) fn untouched(
        &self,
        place: usize,
        member: &Member<'_>,
        ask: Ask<'_>,
        now: Timestamp,
    ) -> State {
        let BucketPlace { shard, found } = self.places.as_ref()[place];
        match (found, &self.shards.as_ref()[shard]) {
            (FoundBucket::History(entry), Some(LockedShard::Histories(records))) => {
                records.see(entry, member, now).untouched(ask, now)
            }
            (FoundBucket::Row { value, .. }, _) => member.algorithm.untouched_row(ask, value, now),
            _ => member.algorithm.see(None, now).untouched(ask, now),
        }
    }

    /// Stores the answer to the member at a place.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        place: usize,
        action: Action,
        member: &Member<'_>,
        answer: &Answer,
        now: Timestamp,
    ) {
        let BucketPlace { shard, found } = self.places.as_ref()[place];
        match (found, &mut self.shards.as_mut()[shard]) {
            (FoundBucket::Row { value, slot }, Some(LockedShard::Rows(rows))) => {
                if let Some(value) = changed(value, action, member, answer, now) {
                    rows.put(slot, &member.fingerprint, value, now);
                }
            }
            (FoundBucket::History(found), Some(LockedShard::Histories(records))) => {
                records.write(found, action, member, answer, now);
            }
            _ => {}
        }
    }
}

impl LockedShard<'_> {
    #[inline(always)]
    fn find(&self, member: &Member<'_>) -> FoundBucket {
        match self {
            Self::Rows(rows) => {
                let (value, slot) = rows.look(&member.fingerprint);
                FoundBucket::Row { value, slot }
            }
            Self::Histories(records) => FoundBucket::History(records.find(&member.fingerprint)),
        }
    }
}

impl MemoryBackend {
    /// Returns the number of a bucket's shard. All shards of histories follow those of rows.
    #[inline(always)]
    fn shard_of(&self, member: &Member<'_>) -> usize {
        match member.algorithm.fits_row() {
            true => self.rows.of(&member.fingerprint),
            false => self.rows.len() + self.histories.of(&member.fingerprint),
        }
    }

    #[inline(always)]
    fn lock(&self, number: usize) -> LockedShard<'_> {
        match number.checked_sub(self.rows.len()) {
            None => LockedShard::Rows(self.rows.lock(number)),
            Some(shard) => LockedShard::Histories(self.histories.lock(shard)),
        }
    }
}

/// Returns the new value of a row after the decision on a member, if it changes.
#[inline(always)]
pub(super) fn changed(
    stored: RowValue,
    action: Action,
    member: &Member<'_>,
    answer: &Answer,
    now: Timestamp,
) -> Option<RowValue> {
    let value = match action {
        Action::Reset => RowValue::FULL,
        action if action.writes() && answer.passed => member.algorithm.row(answer.state),
        _ => return None,
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
