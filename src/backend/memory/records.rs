//! The histories of one shard, for buckets with tiers and windows: an index, and two queues for their replacement. One has
//! the histories that lose least first, the other those whose loss changes soonest.
//!
//! The queues have the first histories only. The others join them when the budget is nearly used, so that until then a charge
//! costs nothing but its history.

use std::{fmt, mem};

use super::{
    blocks::Blocks,
    index::HashChains,
    queue::{QUEUED_BYTES, Queue},
    standing::HistoryStanding,
};
use crate::{
    algorithm::{Action, HistoryTerms, Stored, View},
    clock::Timestamp,
    decision::Answer,
    heap::allocated,
    transaction::{Claim, Fingerprint},
};

/// The number of records in a block.
const BLOCK: usize = 16;

/// The bytes of a history without its units: its record, its places in the queues, two heads of chains and a link in the
/// index, and its part of the headers of blocks and of those that are not full.
pub(super) const RECORD_BYTES: usize =
    allocated(BLOCK * size_of::<Record>()) / BLOCK + 2 * QUEUED_BYTES + 3 * size_of::<u32>() + 11;

/// How many histories each new one looks at, to forget those that have lapsed. In the long run, a quarter of all have.
const LOOKS: usize = 4;
/// The rank of a history that must not be evicted now.
const SPARED: u64 = u64::MAX;
/// The rank of a history before it is assessed.
const UNKNOWN: u64 = SPARED - 1;

#[derive(Default)]
pub(super) struct Records {
    records: Blocks<Record, BLOCK>,
    index: HashChains,
    /// The first records, by the rank of their standing.
    ranks: Queue,
    /// The same records, each with an instant before which its standing does not change by itself.
    dues: Queue,
    /// The record that was looked at last.
    hand: usize,
    /// How many records are still to be looked at, because others are new, and when the last of these was added.
    looks: usize,
    added_at: Timestamp,
    /// The histories that must not be evicted now, once for each batch that spares them.
    spared: Vec<Fingerprint>,
    /// The bytes of the histories beyond their own size.
    heap_bytes: usize,
    evictions: u64,
}

#[derive(Debug)]
struct Record {
    print: Fingerprint,
    stored: Stored,
    terms: HistoryTerms,
}

impl Records {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.records.len() * RECORD_BYTES + self.heap_bytes
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Returns the least rank; `u64::MAX` if no history may be evicted.
    pub(super) fn least(&self) -> Option<u64> {
        self.ranks.first().map(|(rank, _)| rank)
    }

    /// Returns an instant before which the standing of no history changes by itself, or 0 if one is not in the queues.
    #[inline]
    pub(super) fn due(&self) -> Option<u64> {
        match self.dues.len() < self.records.len() {
            true => Some(0),
            false => self.dues.first().map(|(instant, _)| instant),
        }
    }

    /// Returns a history that was found.
    #[inline]
    pub(super) fn stored(&self, entry: usize) -> &Stored {
        &self.records[entry].stored
    }

    /// Returns what a claim finds in its bucket.
    #[inline(always)]
    pub(super) fn see<'s>(
        &'s self,
        found: Option<usize>,
        claim: &Claim<'s>,
        now: Timestamp,
    ) -> View<'s> {
        let stored = found.map(|entry| self.stored(entry));
        claim.algorithm.see(stored, now)
    }

    /// Fills in what a claim leads to.
    #[inline(never)]
    pub(super) fn judge(
        &self,
        found: Option<usize>,
        claim: &Claim<'_>,
        now: Timestamp,
        answer: &mut Answer,
    ) {
        let seen = self.see(found, claim, now);
        seen.judge(&claim.ask, now, |judged| answer.judge(judged));
    }

    /// Stores the answer to a claim: a grant, a refund or a reset. A change of another bucket may have moved the one
    /// that was found.
    pub(super) fn write(
        &mut self,
        found: Option<usize>,
        claim: &Claim<'_>,
        answer: &Answer,
        now: Timestamp,
    ) {
        let (print, action) = (&claim.fingerprint, claim.ask.action);
        if action == Action::Reset {
            return self.forget(print);
        }
        if !claim.algorithm.changes(action, &answer.state) {
            return;
        }
        let there = match found {
            Some(entry) if self.is_at(entry, print) => found,
            Some(_) => self.find(print),
            None => None,
        };
        if let Some(entry) = there.or_else(|| self.add(claim, now)) {
            self.update(entry, claim, answer, now);
        }
    }

    fn is_at(&self, entry: usize, print: &Fingerprint) -> bool {
        self.records
            .get(entry)
            .is_some_and(|record| record.print == *print)
    }

    fn update(&mut self, entry: usize, claim: &Claim<'_>, answer: &Answer, now: Timestamp) {
        let algorithm = claim.algorithm;
        let record = &mut self.records[entry];
        let before = record.stored.allocated_bytes();
        record
            .stored
            .change(algorithm, claim.ask.action, answer.state, now);
        self.heap_bytes = self.heap_bytes + record.stored.allocated_bytes() - before;
        if !record.terms.is_of(algorithm)
            && let Some(terms) = algorithm.history_terms()
        {
            record.terms = terms;
        }
        // One that has lapsed otherwise stays for a while, because its client may soon come back.
        if self.is_queued(entry) {
            self.assess_or_forget(entry, now);
        }
    }

    #[inline]
    pub(super) fn find(&self, print: &Fingerprint) -> Option<usize> {
        let matches = |entry: usize| self.records[entry].print == *print;
        self.index.find(print.low, matches)
    }

    /// Adds a history, which is stored later.
    fn add(&mut self, claim: &Claim<'_>, now: Timestamp) -> Option<usize> {
        (self.looks, self.added_at) = (self.looks + LOOKS, now);
        let terms = claim.algorithm.history_terms()?;
        let entry = self.records.len();
        self.records.push(Record {
            print: claim.fingerprint,
            stored: Stored::history(claim.algorithm),
            terms,
        });
        self.index.push(|entry| self.records[entry].print.low);
        Some(entry)
    }

    /// Looks at a few histories for each new one, in turn, and forgets those that have lapsed. Runs after the last change of
    /// a batch, which may already hold the position of a history that has lapsed.
    pub(super) fn forget_lapsed(&mut self) {
        for _ in 0..mem::take(&mut self.looks).min(self.records.len()) {
            self.hand = match self.hand {
                0 => self.records.len() - 1,
                hand => (hand - 1).min(self.records.len() - 1),
            };
            let Record { terms, stored, .. } = &self.records[self.hand];
            if terms.lapses_at(stored) <= self.added_at.as_micros() {
                self.remove(self.hand);
            }
        }
    }

    pub(super) fn forget(&mut self, print: &Fingerprint) {
        if let Some(entry) = self.find(print) {
            self.remove(entry);
        }
    }

    fn remove(&mut self, entry: usize) {
        let removed = match self.is_queued(entry) {
            true => self.remove_from_queues(entry),
            false => entry,
        };
        self.index
            .swap_remove(removed, |entry| self.records[entry].print.low);
        if let Some(record) = self.records.swap_remove(removed) {
            self.heap_bytes -= record.stored.allocated_bytes();
        }
    }

    /// Returns whether a history is in the queues.
    fn is_queued(&self, entry: usize) -> bool {
        entry < self.ranks.len()
    }

    /// Removes a history from the queues, and returns its new number: the last one in the queues takes its own.
    fn remove_from_queues(&mut self, entry: usize) -> usize {
        self.ranks.swap_remove(entry);
        self.dues.swap_remove(entry);
        let last = self.ranks.len();
        if entry < last {
            self.index
                .swap(entry, last, |entry| self.records[entry].print.low);
            self.records.swap(entry, last);
        }
        last
    }

    /// Assesses up to `most` histories that are not in the queues yet, or whose standing may have changed by itself, and
    /// forgets those that have lapsed. Returns their number.
    pub(super) fn assess_due(&mut self, most: usize, now: Timestamp) -> usize {
        for nth in 0..most {
            let entry = match self.dues.first() {
                _ if self.ranks.len() < self.records.len() => self.queue_next(),
                Some((instant, entry)) if instant <= now.as_micros() => entry,
                _ => return nth,
            };
            self.assess_or_forget(entry, now);
        }
        most
    }

    /// Puts the next history into the queues, at the end of each until it is assessed.
    fn queue_next(&mut self) -> usize {
        let entry = self.ranks.len();
        let is_spared = self.spared.contains(&self.records[entry].print);
        self.ranks.push(if is_spared { SPARED } else { UNKNOWN });
        self.dues.push(u64::MAX);
        entry
    }

    /// Assesses a history in the queues, and forgets it if it has lapsed.
    fn assess_or_forget(&mut self, entry: usize, now: Timestamp) {
        let standing = self.standing(entry, now);
        if standing.lapses() <= now.as_micros() {
            return self.remove(entry);
        }
        self.dues.set(entry, standing.due.max(now.as_micros() + 1));
        if self.ranks.key(entry) != SPARED {
            self.ranks.set(entry, standing.rank);
        }
    }

    fn standing(&self, entry: usize, now: Timestamp) -> HistoryStanding {
        let Record { stored, terms, .. } = &self.records[entry];
        HistoryStanding::new(terms.assess(stored, now))
    }

    /// Keeps a history from being evicted.
    pub(super) fn spare(&mut self, print: &Fingerprint) {
        self.spared.push(*print);
        if let Some(entry) = self.find_queued(print) {
            self.ranks.set(entry, SPARED);
        }
    }

    /// Takes back one call of [`spare`](Self::spare).
    pub(super) fn spare_no_more(&mut self, print: &Fingerprint, now: Timestamp) {
        if let Some(nth) = self.spared.iter().position(|spared| spared == print) {
            self.spared.swap_remove(nth);
        }
        if let Some(entry) = self.find_queued(print)
            && !self.spared.contains(print)
        {
            let rank = self.standing(entry, now).rank;
            self.ranks.set(entry, rank);
        }
    }

    fn find_queued(&self, print: &Fingerprint) -> Option<usize> {
        self.find(print).filter(|entry| self.is_queued(*entry))
    }

    /// Evicts the history that loses least, unless all are spared.
    pub(super) fn evict(&mut self, now: Timestamp) {
        if let Some((rank, entry)) = self.ranks.first()
            && rank < SPARED
        {
            let lapses = HistoryStanding { rank, due: 0 }.lapses();
            self.evictions += u64::from(lapses > now.as_micros());
            self.remove(entry);
        }
    }

    #[cfg(test)]
    pub(super) fn has(&self, print: &Fingerprint) -> bool {
        self.find(print).is_some()
    }

    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.ranks.len()
    }

    /// Each history is in its place, and all bytes are counted.
    #[cfg(test)]
    pub(super) fn check(&self) {
        for (entry, record) in self.records.iter().enumerate() {
            assert_eq!(self.find(&record.print), Some(entry));
        }
        assert!(self.ranks.len() == self.dues.len() && self.ranks.len() <= self.len());
        for entry in 0..self.ranks.len() {
            let rank = self.ranks.key(entry);
            let lapses = HistoryStanding { rank, due: 0 }.lapses();
            assert!(rank < UNKNOWN && self.dues.key(entry) <= lapses);
        }
        let histories = self.records.iter().map(|record| &record.stored);
        let bytes: usize = histories.map(Stored::allocated_bytes).sum();
        assert_eq!(self.heap_bytes, bytes);
        assert!(self.spared.is_empty());
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}
