//! The buckets of a batch, in their locked shards.

use parking_lot::MutexGuard;

use super::{
    MemoryBackend,
    table::{Table, Value},
};
use crate::{
    algorithm::{Figures, Kept, gcra::Ticks, quota::Usage, tiers::History, window::Units},
    decision::{Buckets, Keep},
    transaction::Member,
};

/// The shards of a batch.
pub(super) struct Locked<'m> {
    pub(super) backend: &'m MemoryBackend,
    pub(super) members: &'m [Member<'m>],
    /// The first one.
    pub(super) table: MutexGuard<'m, Table>,
    pub(super) others: Vec<(usize, MutexGuard<'m, Table>)>,
}

impl Locked<'_> {
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

impl Buckets for Locked<'_> {
    fn reset(&mut self, _: usize, member: &Member<'_>) {
        self.table(member).remove(member.print.bucket);
    }
}

/// A state that fits into an entry of a table: an instant, after which the bucket is as new, and a number.
trait InEntry {
    fn of(value: Value) -> Self;
    fn parts(&self) -> (u64, u32);
}

impl InEntry for Ticks {
    #[inline]
    fn of(value: Value) -> Self {
        Self {
            us: value.instant(),
            frac: value.number,
        }
    }

    #[inline]
    fn parts(&self) -> (u64, u32) {
        (self.us, self.frac)
    }
}

impl InEntry for Usage {
    #[inline]
    fn of(value: Value) -> Self {
        Self {
            end: value.instant(),
            used: value.number,
        }
    }

    #[inline]
    fn parts(&self) -> (u64, u32) {
        (self.end, self.used)
    }
}

impl<S: InEntry> Keep<S> for Locked<'_> {
    #[inline]
    fn take(&mut self, _: usize, member: &Member<'_>) -> S {
        let value = self.table(member).get(member.print.bucket);
        S::of(value.unwrap_or_default())
    }

    #[inline]
    fn put_back(&mut self, _: usize, _: &Member<'_>, _: S) {}

    #[inline]
    fn store(
        &mut self,
        _: usize,
        member: &Member<'_>,
        state: S,
        full_at: u64,
        figures: &Figures,
        now: u64,
    ) {
        let (members, print) = (self.members, member.print.bucket);
        let table = self.table(member);
        if full_at <= now {
            return table.remove(print);
        }
        let (instant, number) = state.parts();
        let evicted = table.set(
            print,
            Value::new(instant, level(figures), number),
            members,
            now,
        );
        self.backend.note_evictions(evicted);
    }
}

/// A state that is a history: the instants of units.
trait InHistory: Kept {
    fn heap_bytes(&self) -> usize;
}

impl InHistory for Units {
    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }
}

impl InHistory for History {
    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }
}

impl Keep<Units> for Locked<'_> {
    fn take(&mut self, _: usize, member: &Member<'_>) -> Units {
        self.take_history(member)
    }

    fn put_back(&mut self, _: usize, member: &Member<'_>, units: Units) {
        self.put_history_back(member, units);
    }

    fn store(
        &mut self,
        _: usize,
        member: &Member<'_>,
        units: Units,
        full_at: u64,
        figures: &Figures,
        now: u64,
    ) {
        self.store_history(member, units, full_at, figures, now);
    }
}

impl Keep<History> for Locked<'_> {
    fn take(&mut self, _: usize, member: &Member<'_>) -> History {
        self.take_history(member)
    }

    fn put_back(&mut self, _: usize, member: &Member<'_>, history: History) {
        self.put_history_back(member, history);
    }

    fn store(
        &mut self,
        _: usize,
        member: &Member<'_>,
        history: History,
        full_at: u64,
        figures: &Figures,
        now: u64,
    ) {
        self.store_history(member, history, full_at, figures, now);
    }
}

impl Locked<'_> {
    fn take_history<S: InHistory>(&mut self, member: &Member<'_>) -> S {
        let history = self.table(member).history_mut(member.print.bucket);
        let state = history.and_then(Option::take);
        state.and_then(S::of_state).unwrap_or_default()
    }

    fn put_history_back<S: InHistory>(&mut self, member: &Member<'_>, state: S) {
        if let Some(history) = self.table(member).history_mut(member.print.bucket) {
            *history = Some(state.into_state());
        }
    }

    fn store_history<S: InHistory>(
        &mut self,
        member: &Member<'_>,
        state: S,
        full_at: u64,
        figures: &Figures,
        now: u64,
    ) {
        let (members, print) = (self.members, member.print.bucket);
        let table = self.table(member);
        if full_at <= now {
            return table.remove(print);
        }
        let bytes = state.heap_bytes();
        let value = Value::new(full_at.min(Value::LATEST), level(figures), 0);
        let evicted = table.set_history(print, value, (state.into_state(), bytes), members, now);
        self.backend.note_evictions(evicted);
    }
}

/// Returns how much of a limit is used, to a factor of two between limits. Divisions would take a tenth of a decision.
#[inline]
fn level(figures: &Figures) -> u16 {
    let used = figures.limit.saturating_sub(figures.remaining);
    match figures.remaining {
        0 => Value::MAX_LEVEL,
        _ => ((used << figures.limit.leading_zeros()) >> 22) as u16,
    }
}
