use std::{mem, ops::RangeInclusive};

use smallvec::SmallVec;

use super::histories::Histories;
use crate::{algorithm::State, batch::Member};

/// The buckets of a shard: an array sorted by fingerprint, with gaps.
///
/// The home of a fingerprint is the position that corresponds to its share of all 64-bit numbers. A look-up starts there and reads
/// on until it meets a fingerprint that is not smaller. Since the order never changes, a table grows in one sequential pass, which
/// also drops full buckets. It grows when it is 80 % full, and is 67 % full then. So a bucket of 20 bytes takes 25 to 30.
#[derive(Debug)]
pub(super) struct Table {
    entries: Vec<TableEntry>,
    homes: usize,
    len: usize,
    max_len: usize,
    /// The position that was read last, because most reads are followed by a change of the same bucket.
    last: usize,
    /// For each [`BLOCK`] of homes, an instant before which none of its buckets is full.
    soonest: Vec<u64>,
    /// The position at which the next search for an eviction continues, so that all entries get their turn.
    hand: usize,
    histories: Histories,
}

/// The buckets that are compared before one is evicted.
const SAMPLE: usize = 16;
/// The number of homes that are searched together for full buckets.
const BLOCK: usize = 256;
/// The fewest homes, which take 5 KB. With fewer, busy shards would often remove clients that come back at once.
const MIN_HOMES: usize = 256;
/// The fewest and the most entries after the last home.
const SLACK: RangeInclusive<usize> = 16..=256;

#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct TableEntry {
    /// The fingerprint. The largest number marks a gap.
    print: u64,
    value: StoredValue,
}

/// The stored part of a bucket: the instant from which it is full, how much of its limit was used, and a number whose meaning
/// depends on the algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed(4))]
pub(super) struct StoredValue {
    /// From the highest bit: whether the number is that of a history, the used thousandths in ten bits, and the instant in 53 bits.
    bits: u64,
    pub(super) number: u32,
}

const INSTANT_BITS: u32 = 53;
const IS_HISTORY: u64 = 1 << 63;

impl StoredValue {
    /// The latest instant. No decision is made after it.
    const LATEST: u64 = (1 << INSTANT_BITS) - 1;

    #[inline]
    pub(super) fn new(full_at: u64, used: u16, number: u32) -> Self {
        Self {
            bits: u64::from(used) << INSTANT_BITS | full_at.min(Self::LATEST),
            number,
        }
    }

    #[inline]
    pub(super) const fn full_at(self) -> u64 {
        self.bits & Self::LATEST
    }

    const fn used(self) -> u64 {
        (self.bits & !IS_HISTORY) >> INSTANT_BITS
    }

    const fn with_history(self, number: u32) -> Self {
        Self {
            bits: self.bits | IS_HISTORY,
            number,
        }
    }

    #[inline]
    fn history(self) -> Option<u32> {
        (self.bits & IS_HISTORY != 0).then_some(self.number)
    }
}

impl TableEntry {
    const GAP: Self = Self {
        print: u64::MAX,
        value: StoredValue { bits: 0, number: 0 },
    };

    #[inline]
    const fn is_gap(self) -> bool {
        self.print == u64::MAX
    }

    /// Returns whether the bucket can be forgotten. Buckets of the present batch are kept, because a longer limit may still count
    /// their units.
    fn is_over(self, batch: &[Member<'_>], now: u64) -> bool {
        self.value.full_at() <= now && !self.is_in(batch)
    }

    fn is_in(self, batch: &[Member<'_>]) -> bool {
        let print = self.print;
        batch.iter().any(|member| member.print.bucket == print)
    }
}

impl Table {
    pub(super) fn new(max_len: usize, max_history_bytes: usize) -> Self {
        Self {
            entries: vec![TableEntry::GAP],
            homes: 0,
            len: 0,
            max_len,
            last: 0,
            soonest: Vec::new(),
            hand: 0,
            histories: Histories::new(max_history_bytes),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&mut self, print: u64) -> Option<StoredValue> {
        self.last = self.position(print);
        let entry = self.entries[self.last];
        (entry.print == print).then_some(entry.value)
    }

    /// Stores a bucket. If there is no room, it replaces other buckets, but none of the batch. Returns how many were replaced.
    #[inline]
    pub(super) fn set(
        &mut self,
        print: u64,
        value: StoredValue,
        batch: &[Member<'_>],
        now: u64,
    ) -> u64 {
        let last = self.entries.get(self.last);
        let mut position = self.last;
        if last.is_none_or(|last| last.print != print) {
            position = self.position(print);
        }
        let entry = &mut self.entries[position];
        if entry.print != print {
            return self.insert(TableEntry { print, value }, batch, now);
        }
        let is_sooner = value.full_at() < entry.value.full_at();
        entry.value = value;
        if is_sooner {
            self.expect(TableEntry { print, value });
        }
        0
    }

    pub(super) fn remove(&mut self, print: u64) {
        let position = self.position(print);
        if self.entries[position].print == print {
            self.remove_at(position);
        }
    }

    /// Returns the number of a bucket's history, if it has one.
    pub(super) fn history_mut(&mut self, print: u64) -> Option<&mut Option<State>> {
        let number = self.get(print)?.history()?;
        Some(self.histories.get_mut(number))
    }

    /// Stores a bucket with a history of `bytes`.
    pub(super) fn set_history(
        &mut self,
        print: u64,
        value: StoredValue,
        history: (State, usize),
        batch: &[Member<'_>],
        now: u64,
    ) -> u64 {
        let known = self.get(print).and_then(StoredValue::history);
        let number = self.histories.set(known, history);
        let evicted = self.set(print, value.with_history(number), batch, now);
        let has_room = |table: &Self| !table.histories.are_too_large();
        // The histories of the batch are kept even if they exceed the cap.
        let can_go = |entry: TableEntry| entry.value.history().is_some() && !entry.is_in(batch);
        evicted + self.make_room(has_room, can_go, batch, now)
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is below the number of homes"
    )]
    fn home(&self, print: u64) -> usize {
        ((u128::from(print) * self.homes as u128) >> 64) as usize
    }

    /// Returns the position of a fingerprint, or the position at which it would be inserted. The last entry is always a gap.
    #[inline]
    fn position(&self, print: u64) -> usize {
        let mut position = self.home(print);
        while self.entries[position].print < print {
            position += 1;
        }
        position
    }

    #[inline(never)]
    fn insert(&mut self, entry: TableEntry, batch: &[Member<'_>], now: u64) -> u64 {
        let has_room = |table: &Self| table.len < table.max_len;
        let evicted = self.make_room(has_room, |_| true, batch, now);
        if self.len * 5 >= self.homes * 4 {
            self.rebuild(batch, now);
        }
        let position = self.position(entry.print);
        let mut gap = position;
        while !self.entries[gap].is_gap() {
            gap += 1;
        }
        self.entries.copy_within(position..gap, position + 1);
        self.entries[position] = entry;
        self.len += 1;
        self.expect(entry);
        self.end_with_gap(gap);
        evicted
    }

    /// Removes a bucket, and moves the buckets after it closer to their homes.
    fn remove_at(&mut self, position: usize) {
        if let Some(history) = self.entries[position].value.history() {
            self.histories.remove(history);
        }
        let mut end = position + 1;
        while !self.entries[end].is_gap() && self.home(self.entries[end].print) < end {
            end += 1;
        }
        self.entries.copy_within(position + 1..end, position);
        self.entries[end - 1] = TableEntry::GAP;
        self.len -= 1;
    }

    /// Moves the buckets that are not full to an array of which two thirds are used.
    fn rebuild(&mut self, batch: &[Member<'_>], now: u64) {
        let stays = |entry: &TableEntry| !entry.is_gap() && !entry.is_over(batch, now);
        self.len = self.entries.iter().filter(|entry| stays(entry)).count();
        self.homes = (self.len + self.len / 2).max(MIN_HOMES);
        self.soonest = vec![StoredValue::LATEST; self.homes.div_ceil(BLOCK)];
        let room = self.homes + (self.homes / 8).clamp(*SLACK.start(), *SLACK.end());
        let mut next = 0;
        for entry in mem::replace(&mut self.entries, vec![TableEntry::GAP; room]) {
            if stays(&entry) {
                let position = self.home(entry.print).max(next);
                self.entries[position] = entry;
                self.expect(entry);
                self.end_with_gap(position);
                next = position + 1;
            } else if let Some(history) = entry.value.history() {
                self.histories.remove(history);
            }
        }
    }

    fn end_with_gap(&mut self, last: usize) {
        if last + 1 == self.entries.len() {
            self.entries.reserve_exact(1);
            self.entries.push(TableEntry::GAP);
        }
    }

    /// Records the instant from which the block of an entry may have a full bucket.
    fn expect(&mut self, entry: TableEntry) {
        let block = self.home(entry.print) / BLOCK;
        self.soonest[block] = self.soonest[block].min(entry.value.full_at());
    }

    /// Removes buckets until there is room: full ones first, and then others that `can_go`. Returns the number of the others.
    fn make_room(
        &mut self,
        has_room: impl Fn(&Self) -> bool,
        can_go: impl Fn(TableEntry) -> bool,
        batch: &[Member<'_>],
        now: u64,
    ) -> u64 {
        let mut block = 0;
        while !has_room(self) && block < self.soonest.len() {
            if self.soonest[block] <= now {
                self.sweep(block, batch, now);
            }
            block += 1;
        }
        let mut evicted = 0;
        while !has_room(self)
            && let Some(victim) = self.victim(&can_go, batch)
        {
            self.remove_at(victim);
            evicted += 1;
        }
        evicted
    }

    /// Removes the full buckets of a block.
    fn sweep(&mut self, block: usize, batch: &[Member<'_>], now: u64) {
        self.soonest[block] = StoredValue::LATEST;
        let mut position = block * BLOCK;
        let end = position + BLOCK;
        while let Some(entry) = self.entries.get(position).copied() {
            if entry.is_gap() {
                position += 1;
            } else if self.home(entry.print) >= end {
                break;
            } else if entry.is_over(batch, now) {
                // The next bucket moves to this position.
                self.remove_at(position);
            } else {
                self.expect(entry);
                position += 1;
            }
        }
    }

    /// Returns the position of the least used bucket of a sample. If several are used as little, it is the one that is full the
    /// soonest. A batch that has more buckets than there is room for replaces its own.
    fn victim(
        &mut self,
        can_go: impl Fn(TableEntry) -> bool,
        batch: &[Member<'_>],
    ) -> Option<usize> {
        let mut sample = SmallVec::<[usize; SAMPLE]>::new();
        let mut own = None;
        for _ in 0..self.entries.len() {
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = self.entries[self.hand];
            if entry.is_gap() || !can_go(entry) {
                continue;
            }
            if entry.is_in(batch) {
                own = Some(self.hand);
                continue;
            }
            sample.push(self.hand);
            if sample.len() == SAMPLE {
                break;
            }
        }
        let least_used = sample.into_iter().min_by_key(|position| {
            let value = self.entries[*position].value;
            (value.used(), value.full_at())
        });
        least_used.or(own)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::random::Random;

    /// A third of the fingerprints are at the end, so that the entries after the last home do not suffice.
    #[test]
    fn table_is_a_map_without_buckets_that_are_full_again() {
        let mut random = Random(5);
        let mut table = Table::new(usize::MAX, 0);
        let mut expected = BTreeMap::new();
        let mut most = 0;
        for step in 0..10_000 {
            let now = u64::from(step);
            let print = random.below(600);
            let print = match random.below(3) {
                0 => print,
                1 => print << 54,
                _ => u64::MAX - 1 - print,
            };
            if random.below(5) == 0 {
                table.remove(print);
                expected.remove(&print);
            } else {
                let value = StoredValue::new(now + random.below(4000), 0, step);
                table.set(print, value, &[], now);
                expected.insert(print, value);
            }
            if now % 50 == 0 {
                let lasts = |value: &StoredValue| value.full_at() > now;
                expected.retain(|_, value| lasts(value));
                for (print, value) in &expected {
                    assert_eq!(table.get(*print).filter(lasts), Some(*value));
                }
                // It grows at 80 % to 67 %.
                most = most.max(expected.len());
                assert!(table.len() * 4 <= most.max(MIN_HOMES) * 5);
            }
        }
        assert!(most > 2 * MIN_HOMES);
    }

    #[test]
    fn full_buckets_are_evicted_first_at_the_cap() {
        // Under Miri, which takes long, everything is ten times smaller.
        let scale = if cfg!(miri) { 1 } else { 10 };
        let mut random = Random(7);
        let mut table = Table::new(60 * usize::try_from(scale).unwrap(), 0);
        let mut live = BTreeMap::new();
        let mut evicted = 0;
        for now in 0..400 * scale {
            live.retain(|_, full_at| *full_at > now);
            let print = random.below(400 * scale) << 52;
            let longest = if now < 200 * scale { 400 } else { 50 };
            let full_at = now + 1 + random.below(longest * scale);
            let more = table.set(print, StoredValue::new(full_at, 500, 0), &[], now);
            live.insert(print, full_at);
            let before = live.len();
            live.retain(|print, _| table.get(*print).is_some());
            assert_eq!((before - live.len()) as u64, more);
            // All full buckets were removed before.
            assert!(more == 0 || table.len() == live.len());
            evicted += more;
        }
        assert!((10 * scale..300 * scale).contains(&evicted));
    }
}
