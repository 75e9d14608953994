//! The buckets of one batch, locked.

use std::sync::MutexGuard;

use smallvec::SmallVec;

use super::{
    histories::{Histories, LockedRecords},
    shard::Shards,
    table::Table,
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

/// Locked shards with their numbers.
type Guards<T> = SmallVec<[(usize, T); 4]>;

impl<'a> LockedBuckets<'a> {
    /// Locks the shards of all members.
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

    /// Returns the stored state of a member's bucket.
    pub(super) fn see<'b>(&'b self, member: &Member<'b>, now: Timestamp) -> View<'b> {
        let print = &member.fingerprint;
        if member.algorithm.fits_row() {
            let shard = position(&self.rows, self.all_rows.of(print));
            return member.algorithm.see_row(self.rows[shard].1.get(print), now);
        }
        let shard = position(&self.histories, self.all_histories.of(print));
        self.histories[shard].1.see(member, now)
    }

    /// Stores the decision on a member's bucket.
    pub(super) fn write(
        &mut self,
        action: Action,
        member: &Member<'_>,
        answer: &Answer,
        now: Timestamp,
    ) {
        let print = &member.fingerprint;
        if member.algorithm.fits_row() {
            let shard = position(&self.rows, self.all_rows.of(print));
            let rows = &mut self.rows[shard].1;
            let (value, place) = rows.look(print);
            if let Some(value) = changed(value, action, member, answer, now) {
                rows.put(place, print, value, now);
            }
        } else {
            let shard = position(&self.histories, self.all_histories.of(print));
            self.histories[shard].1.write(action, member, answer, now);
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

type Numbers = SmallVec<[usize; 4]>;

/// Locks shards in ascending order, each once.
fn lock<T>(mut shards: Numbers, lock: impl Fn(usize) -> T) -> Guards<T> {
    shards.sort_unstable();
    shards.dedup();
    shards
        .into_iter()
        .map(|shard| (shard, lock(shard)))
        .collect()
}

fn position<T>(guards: &Guards<T>, shard: usize) -> usize {
    guards.partition_point(|(locked, _)| *locked < shard)
}
