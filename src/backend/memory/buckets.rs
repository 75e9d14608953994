//! The buckets of a batch, in their locked shards.

use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use super::{
    MemoryBackend,
    table::{StoredValue, Table},
};
use crate::{
    algorithm::{
        AnyState, concurrency::Permits, gcra::Ticks, quota::Usage, tiers::History, window::Units,
    },
    backend::decide::{Buckets, StateAccess},
    batch::Member,
};

/// The shards of a batch, with their locks.
pub(super) struct LockedShards<'m> {
    pub(super) backend: &'m MemoryBackend,
    pub(super) members: &'m [Member<'m>],
    /// The shard of the first member.
    pub(super) table: MutexGuard<'m, Table>,
    pub(super) others: Vec<(usize, MutexGuard<'m, Table>)>,
}

impl LockedShards<'_> {
    /// Locks the other shards, in ascending order, so that no two batches wait for each other. The buckets of one client share a
    /// shard, so there are seldom any.
    #[inline(never)]
    pub(super) fn lock_others(&mut self, first: usize) {
        let backend = self.backend;
        let shards = || self.members.iter().map(|member| backend.shard_of(member));
        let mut from = first + 1;
        while let Some(shard) = shards().filter(|shard| *shard >= from).min() {
            self.others.push((shard, backend.shards[shard].lock()));
            from = shard + 1;
        }
    }

    #[inline]
    fn table(&mut self, member: &Member<'_>) -> &mut Table {
        if self.others.is_empty() {
            return &mut self.table;
        }
        let shard = self.backend.shard_of(member);
        let other = self.others.iter_mut().find(|(locked, _)| *locked == shard);
        other.map_or(&mut *self.table, |(_, table)| &mut *table)
    }
}

impl Buckets for LockedShards<'_> {
    fn reset(&mut self, _: usize, member: &Member<'_>) {
        self.table(member).remove(member.print.bucket);
    }
}

impl<S: TableState> StateAccess<S> for LockedShards<'_> {
    #[inline]
    fn take(&mut self, _: usize, member: &Member<'_>) -> S {
        S::take(self.table(member), member.print.bucket)
    }

    #[inline]
    fn put_back(&mut self, _: usize, member: &Member<'_>, state: S) {
        state.put_back(self.table(member), member.print.bucket);
    }

    #[inline]
    fn store(
        &mut self,
        _: usize,
        member: &Member<'_>,
        state: S,
        full_at: u64,
        used: u16,
        now: u64,
    ) {
        let batch = self.members;
        let print = member.print.bucket;
        let table = self.table(member);
        if full_at <= now {
            return table.remove(print);
        }
        let value = StoredValue::new(full_at, used, state.number());
        let evicted = match state.history_bytes() {
            None => table.set(print, value, batch, now),
            Some(bytes) => {
                let history = (state.into_state(), bytes);
                table.set_history(print, value, history, batch, now)
            }
        };
        if evicted > 0 {
            self.backend.evictions.fetch_add(evicted, Ordering::Relaxed);
        }
    }
}

/// A state in the form in which a table stores it: in the entry of the bucket or, as a history, beside the entries.
trait TableState: AnyState {
    /// Returns the state of a bucket. A history is taken out.
    fn take(table: &mut Table, print: u64) -> Self {
        let history = table.history_mut(print).and_then(Option::take);
        history.and_then(Self::of_state).unwrap_or_default()
    }

    /// Puts an unchanged history back.
    fn put_back(self, table: &mut Table, print: u64) {
        if let Some(history) = table.history_mut(print) {
            *history = Some(self.into_state());
        }
    }

    /// Returns the number in the entry, for states without a history.
    fn number(&self) -> u32 {
        0
    }

    /// Returns the bytes that a history has on the heap; `None` if the state is in the entry.
    fn history_bytes(&self) -> Option<usize> {
        None
    }
}

impl TableState for Ticks {
    #[inline]
    fn take(table: &mut Table, print: u64) -> Self {
        let value = table.get(print).unwrap_or_default();
        // The instant in the entry is the TAT, rounded up.
        Self {
            us: value.full_at() - u64::from(value.number > 0),
            frac: value.number,
        }
    }

    #[inline]
    fn put_back(self, _: &mut Table, _: u64) {}

    #[inline]
    fn number(&self) -> u32 {
        self.frac
    }
}

impl TableState for Usage {
    #[inline]
    fn take(table: &mut Table, print: u64) -> Self {
        let value = table.get(print).unwrap_or_default();
        Self {
            end: value.full_at(),
            used: value.number,
        }
    }

    #[inline]
    fn put_back(self, _: &mut Table, _: u64) {}

    #[inline]
    fn number(&self) -> u32 {
        self.used
    }
}

impl TableState for Units {
    fn history_bytes(&self) -> Option<usize> {
        Some(self.heap_bytes())
    }
}

impl TableState for Permits {
    fn history_bytes(&self) -> Option<usize> {
        Some(self.heap_bytes())
    }
}

impl TableState for History {
    fn history_bytes(&self) -> Option<usize> {
        Some(self.heap_bytes())
    }
}
