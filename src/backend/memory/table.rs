use std::{mem, ops::RangeInclusive};

use super::histories::Histories;
use crate::{algorithm::State, transaction::Member};

/// The buckets of a shard: an array sorted by fingerprint, with gaps.
///
/// A fingerprint's home is its share of the array, so a look-up starts there and reads on until it meets a fingerprint
/// that is not smaller. Since the order never changes, a table grows in one sequential pass, which also drops the buckets
/// that are full again. It grows from 80 % full to 67 %: 20 bytes for each bucket become 25 to 30.
#[derive(Debug)]
pub(super) struct Table {
    entries: Vec<Entry>,
    homes: usize,
    len: usize,
    max_len: usize,
    /// The entry that was read last. A change follows most reads.
    last: usize,
    /// The entry that was looked at last for an eviction. Each gets its turn.
    hand: usize,
    histories: Histories,
}

/// The buckets that are compared before one is evicted.
const SAMPLE: usize = 16;
/// The fewest homes: 5 KB, so that busy shards seldom make room for clients that come back at once.
const MIN_HOMES: usize = 256;
/// The fewest and the most entries behind the last home.
const SLACK: RangeInclusive<usize> = 16..=256;

#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Entry {
    /// The largest number marks a gap.
    print: u64,
    value: Value,
}

/// The stored part of a bucket: an instant and a number whose meaning its algorithm knows, and how much of its limit was
/// used. The bucket is as new after the instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed(4))]
pub(super) struct Value {
    /// From above: whether the number is that of a history, the level in ten bits, and the instant in 53.
    bits: u64,
    pub(super) number: u32,
}

const INSTANT_BITS: u32 = 53;
const IS_HISTORY: u64 = 1 << 63;

impl Value {
    /// The level of a limit that is used up.
    pub(super) const MAX_LEVEL: u16 = (1 << 10) - 1;
    /// The latest instant. No decision is made after it.
    pub(super) const LATEST: u64 = (1 << INSTANT_BITS) - 1;

    #[inline]
    pub(super) fn new(instant: u64, level: u16, number: u32) -> Self {
        Self {
            bits: u64::from(level) << INSTANT_BITS | instant.min(Self::LATEST),
            number,
        }
    }

    #[inline]
    pub(super) const fn instant(self) -> u64 {
        self.bits & Self::LATEST
    }

    #[inline]
    const fn level(self) -> u64 {
        (self.bits >> INSTANT_BITS) & Self::MAX_LEVEL as u64
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

impl Entry {
    const GAP: Self = Self {
        print: u64::MAX,
        value: Value { bits: 0, number: 0 },
    };

    #[inline]
    const fn is_gap(self) -> bool {
        self.print == u64::MAX
    }

    #[inline]
    const fn is_new(self, now: u64) -> bool {
        self.value.instant() < now
    }
}

impl Table {
    pub(super) fn new(max_len: usize, max_history_bytes: usize) -> Self {
        Self {
            entries: vec![Entry::GAP],
            homes: 0,
            len: 0,
            max_len,
            last: 0,
            hand: 0,
            histories: Histories::new(max_history_bytes),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&mut self, print: u64) -> Option<Value> {
        self.last = self.position(print);
        let entry = self.entries[self.last];
        (entry.print == print).then_some(entry.value)
    }

    /// Stores a bucket. If there is no room, it replaces another one, but none of the batch. Returns how many it has replaced.
    #[inline]
    pub(super) fn set(&mut self, print: u64, value: Value, batch: &[Member<'_>], now: u64) -> u64 {
        match self.entries.get_mut(self.last) {
            Some(entry) if entry.print == print => {
                entry.value = value;
                0
            }
            _ => self.set_elsewhere(Entry { print, value }, batch, now),
        }
    }

    #[inline(never)]
    fn set_elsewhere(&mut self, entry: Entry, batch: &[Member<'_>], now: u64) -> u64 {
        let position = self.position(entry.print);
        match self.entries[position].print == entry.print {
            true => {
                self.entries[position] = entry;
                0
            }
            false => self.insert(entry, batch, now),
        }
    }

    pub(super) fn remove(&mut self, print: u64) {
        let position = self.position(print);
        if self.entries[position].print == print {
            self.remove_at(position);
        }
    }

    /// Returns the place of a bucket's history, if it has one.
    pub(super) fn history_mut(&mut self, print: u64) -> Option<&mut Option<State>> {
        let number = self.get(print)?.history()?;
        Some(self.histories.get_mut(number))
    }

    /// Stores a bucket with a history of so many bytes.
    pub(super) fn set_history(
        &mut self,
        print: u64,
        value: Value,
        history: (State, usize),
        batch: &[Member<'_>],
        now: u64,
    ) -> u64 {
        let known = self.get(print).and_then(Value::history);
        let number = self.histories.set(known, print, history);
        let mut evicted = self.set(print, value.with_history(number), batch, now);
        while self.histories.are_too_large() {
            let sample = self.histories.sample(SAMPLE);
            let positions = sample.into_iter().map(|print| self.position(print));
            let Some(victim) = self.least_used(positions, batch) else {
                break;
            };
            self.remove_at(victim);
            evicted += 1;
        }
        evicted
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is below the number of homes"
    )]
    fn home(&self, print: u64) -> usize {
        ((u128::from(print) * self.homes as u128) >> 64) as usize
    }

    /// Returns the position of a fingerprint, or where it belongs. The last entry is always a gap.
    #[inline]
    fn position(&self, print: u64) -> usize {
        let mut position = self.home(print);
        while self.entries[position].print < print {
            position += 1;
        }
        position
    }

    #[inline(never)]
    fn insert(&mut self, entry: Entry, batch: &[Member<'_>], now: u64) -> u64 {
        let mut evicted = 0;
        if self.len >= self.max_len
            && let Some(victim) = self.victim(batch, now)
        {
            evicted = u64::from(!self.entries[victim].is_new(now));
            self.remove_at(victim);
        }
        if self.len * 5 >= self.homes * 4 {
            self.rebuild(now);
        }
        let position = self.position(entry.print);
        let mut gap = position;
        while !self.entries[gap].is_gap() {
            gap += 1;
        }
        self.entries.copy_within(position..gap, position + 1);
        self.entries[position] = entry;
        self.len += 1;
        self.end_with_gap(gap);
        evicted
    }

    /// Removes a bucket, and moves those behind it closer to their homes.
    fn remove_at(&mut self, position: usize) {
        if let Some(history) = self.entries[position].value.history() {
            self.histories.remove(history);
        }
        let mut end = position + 1;
        while !self.entries[end].is_gap() && self.home(self.entries[end].print) < end {
            end += 1;
        }
        self.entries.copy_within(position + 1..end, position);
        self.entries[end - 1] = Entry::GAP;
        self.len -= 1;
    }

    /// Moves the buckets that are not as new to an array that is two thirds full.
    fn rebuild(&mut self, now: u64) {
        let stays = |entry: &Entry| !entry.is_gap() && !entry.is_new(now);
        self.len = self.entries.iter().filter(|entry| stays(entry)).count();
        self.homes = (self.len + self.len / 2).max(MIN_HOMES);
        let room = self.homes + (self.homes / 8).clamp(*SLACK.start(), *SLACK.end());
        let mut next = 0;
        for entry in mem::replace(&mut self.entries, vec![Entry::GAP; room]) {
            if stays(&entry) {
                let position = self.home(entry.print).max(next);
                self.entries[position] = entry;
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
            self.entries.push(Entry::GAP);
        }
    }

    /// Returns the position of a bucket that is as new, or else that of the least used of a sample. A batch with more buckets than
    /// there is room for replaces its own.
    fn victim(&mut self, batch: &[Member<'_>], now: u64) -> Option<usize> {
        let mut sample = [0; SAMPLE];
        let (mut seen, mut own) = (0, None);
        for _ in 0..self.entries.len() {
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = self.entries[self.hand];
            if entry.is_gap() {
                continue;
            }
            if is_in(batch, entry) {
                own = Some(self.hand);
                continue;
            }
            if entry.is_new(now) {
                return Some(self.hand);
            }
            sample[seen] = self.hand;
            seen += 1;
            if seen == SAMPLE {
                break;
            }
        }
        let others = sample[..seen].iter().copied();
        self.least_used(others, batch).or(own)
    }

    /// Returns the position of the least used bucket; of several, the one that is as new the soonest.
    fn least_used(
        &self,
        positions: impl Iterator<Item = usize>,
        batch: &[Member<'_>],
    ) -> Option<usize> {
        let others = positions.filter(|position| !is_in(batch, self.entries[*position]));
        others.min_by_key(|position| {
            let value = self.entries[*position].value;
            (value.level(), value.instant())
        })
    }
}

/// Returns whether a bucket is one of a batch.
fn is_in(batch: &[Member<'_>], entry: Entry) -> bool {
    let print = entry.print;
    batch.iter().any(|member| member.print.bucket == print)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::history::Random;

    /// A third of the fingerprints are at the end, where more entries than there is room for follow the last home.
    #[test]
    fn table_is_a_map_without_buckets_that_are_as_new() {
        let (mut random, mut table) = (Random(5), Table::new(usize::MAX, 0));
        let (mut expected, mut most) = (BTreeMap::new(), 0);
        for step in 0..10_000 {
            let (now, print) = (u64::from(step), random.below(600));
            let print = match random.below(3) {
                0 => print,
                1 => print << 54,
                _ => u64::MAX - 1 - print,
            };
            if random.below(5) == 0 {
                table.remove(print);
                expected.remove(&print);
            } else {
                let value = Value::new(now + random.below(4000), 0, step);
                table.set(print, value, &[], now);
                expected.insert(print, value);
            }
            if now % 50 == 0 {
                let lasts = |value: &Value| value.instant() >= now;
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
}
