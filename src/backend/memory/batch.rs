//! The buckets of one batch, locked.

use std::sync::MutexGuard;

use smallvec::SmallVec;

use super::{
    histories::{Histories, LockedRecords},
    shard::Shards,
    table::{BucketSlot, Table},
};
use crate::{
    algorithm::{Action, RowValue, View},
    clock::Timestamp,
    decision::Answer,
    transaction::Member,
};

/// The locked shards of a batch's buckets. Rows are locked before histories, and lower shards before higher ones, so
/// that no two batches wait for each other.
pub(super) struct LockedBuckets<'a> {
    all_rows: &'a Shards<Table>,
    all_histories: &'a Histories,
    rows: Guards<MutexGuard<'a, Table>>,
    histories: Guards<LockedRecords<'a>>,
}

/// What was found in a row.
#[derive(Clone, Copy, Default)]
pub(super) struct FoundRow {
    pub(super) value: RowValue,
    slot: Option<BucketSlot>,
}

/// Locked shards with their numbers.
type Guards<T> = SmallVec<[(usize, T); 4]>;

impl<'a> LockedBuckets<'a> {
    /// Locks the shards of all members.
    #[inline(always)]
    pub(super) fn new(
        rows: &'a Shards<Table>,
        histories: &'a Histories,
        members: &[Member<'_>],
    ) -> Self {
        let (mut row_shards, mut history_shards) = (Numbers::new(), Numbers::new());
        for member in members {
            let print = &member.fingerprint;
            match member.algorithm.fits_row() {
                true => row_shards.push(rows.of(print)),
                false => history_shards.push(histories.of(print)),
            }
        }
        Self {
            all_rows: rows,
            all_histories: histories,
            rows: lock(row_shards, |shard| rows.lock(shard)),
            histories: lock(history_shards, |shard| histories.lock(shard)),
        }
    }

    /// Returns the stored state of a member's bucket. If it is in a row, `found` receives that.
    #[inline(always)]
    pub(super) fn see<'b>(
        &'b self,
        member: &Member<'b>,
        now: Timestamp,
        found: &mut FoundRow,
    ) -> View<'b> {
        let print = &member.fingerprint;
        if member.algorithm.fits_row() {
            let (value, slot) = self.rows[self.row(member)].1.look(print);
            *found = FoundRow { value, slot };
            return member.algorithm.see_row(value, now);
        }
        let shard = position(&self.histories, self.all_histories.of(print));
        self.histories[shard].1.see(member, now)
    }

    /// Stores the decision on a member's bucket, which was found in this row, if it is in one.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        action: Action,
        member: &Member<'_>,
        answer: &Answer,
        found: FoundRow,
        now: Timestamp,
    ) {
        let print = &member.fingerprint;
        if !member.algorithm.fits_row() {
            let shard = position(&self.histories, self.all_histories.of(print));
            return self.histories[shard].1.write(action, member, answer, now);
        }
        let Some(value) = changed(found.value, action, member, answer, now) else {
            return;
        };
        let row = self.row(member);
        let rows = &mut self.rows[row].1;
        // A change of another bucket in this shard may have moved it.
        let slot = match found.slot.filter(|slot| rows.has(*slot, print)) {
            Some(slot) => Some(slot),
            None => rows.look(print).1,
        };
        rows.put(slot, print, value, now);
    }

    #[inline(always)]
    fn row(&self, member: &Member<'_>) -> usize {
        position(&self.rows, self.all_rows.of(&member.fingerprint))
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

type Numbers = SmallVec<[usize; 4]>;

/// Locks shards in ascending order, each once.
#[inline(always)]
fn lock<T>(mut shards: Numbers, lock: impl Fn(usize) -> T) -> Guards<T> {
    let mut guards = Guards::new();
    if shards.len() > 1 {
        shards.sort_unstable();
        shards.dedup();
    }
    for shard in shards {
        guards.push((shard, lock(shard)));
    }
    guards
}

#[inline(always)]
fn position<T>(guards: &Guards<T>, shard: usize) -> usize {
    match guards.len() {
        1 => 0,
        _ => guards.partition_point(|(locked, _)| *locked < shard),
    }
}
