//! The buckets of one batch, locked.

use std::sync::MutexGuard;

use smallvec::SmallVec;

use super::{
    histories::{Histories, LockedRecords},
    shard::Shards,
    table::Table,
    value::RowValue,
};
use crate::{
    clock::Timestamp,
    decision::{Answer, BucketView, State},
    transaction::{Action, Algorithm, Member},
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
            match member.algorithm {
                Algorithm::Gcra(_) | Algorithm::Quota(_) => row_shards.push(rows.of(print)),
                Algorithm::Tiers(_) | Algorithm::Window(_) => {
                    history_shards.push(histories.of(print));
                }
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
    pub(super) fn see(&self, member: &Member<'_>, now: Timestamp) -> BucketView<'_> {
        let print = &member.fingerprint;
        let row = || {
            let shard = position(&self.rows, self.all_rows.of(print));
            self.rows[shard].1.get(print)
        };
        match member.algorithm {
            Algorithm::Gcra(_) => BucketView::Gcra(row().tat()),
            Algorithm::Quota(_) => BucketView::Quota(row().usage()),
            Algorithm::Tiers(_) | Algorithm::Window(_) => {
                let shard = position(&self.histories, self.all_histories.of(print));
                self.histories[shard].1.see(member, now)
            }
        }
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
        match member.algorithm {
            Algorithm::Gcra(_) | Algorithm::Quota(_) => {
                let shard = position(&self.rows, self.all_rows.of(print));
                let rows = &mut self.rows[shard].1;
                let (value, place) = rows.look(print);
                if let Some(value) = changed(value, action, member, answer, now) {
                    rows.put(place, print, value, now);
                }
            }
            Algorithm::Tiers(_) | Algorithm::Window(_) => {
                let shard = position(&self.histories, self.all_histories.of(print));
                let records = &mut self.histories[shard].1;
                records.write(action, member, answer, now);
            }
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
    let changed = match (member.algorithm, answer.state) {
        _ if action == Action::Reset => Some(RowValue::FULL),
        (Algorithm::Gcra(gcra), State::Gcra(tat)) => {
            (tat != stored.tat()).then(|| RowValue::gcra(tat, gcra.tolerance()))
        }
        // A charge that passes changes the period, or the amount in it.
        (Algorithm::Quota(quota), State::Quota(usage)) if action.writes() && answer.passed => {
            (usage != stored.usage()).then(|| RowValue::quota(quota, usage))
        }
        _ => None,
    };
    changed.map(|value| value.unless_full(now))
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
