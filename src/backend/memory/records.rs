//! The histories of one shard, for buckets with tiers and windows: an index, and two queues. One has the histories that
//! lose least first, the other those whose loss changes soonest.

use std::fmt;

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
    transaction::{Fingerprint, Member},
};

/// The number of records in a block.
const BLOCK: usize = 16;

/// The bytes of a history without its units: its record, its places in the queues, two heads of chains and a link in the
/// index, and its part of the headers of blocks and of those that are not full.
pub(super) const RECORD_BYTES: usize =
    allocated(BLOCK * size_of::<Record>()) / BLOCK + 2 * QUEUED_BYTES + 3 * size_of::<u32>() + 11;

/// The most histories that are assessed again after each charge, because their loss may have changed by itself.
const STEPS: usize = 2;
/// The rank of a history that must not be evicted now.
const SPARED: u64 = u64::MAX;

#[derive(Default)]
pub(super) struct Records {
    records: Blocks<Record, BLOCK>,
    index: HashChains,
    /// The records by the rank of their standing.
    ranks: Queue,
    /// The records, each with an instant before which its standing does not change by itself.
    dues: Queue,
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

    /// Returns an instant before which the standing of no history changes by itself.
    pub(super) fn due(&self) -> Option<u64> {
        self.dues.first().map(|(instant, _)| instant)
    }

    /// Returns the view of a history that was found, or of an unused bucket.
    #[inline]
    pub(super) fn see<'a>(
        &'a self,
        found: Option<usize>,
        member: &Member<'a>,
        now: Timestamp,
    ) -> View<'a> {
        let stored = found.map(|entry| &self.records[entry].stored);
        member.algorithm.see(stored, now)
    }

    /// Stores the decision on a member: a grant, a refund or a reset. A change of another bucket may have moved the one
    /// that was found.
    pub(super) fn write(
        &mut self,
        found: Option<usize>,
        action: Action,
        member: &Member<'_>,
        answer: &Answer,
        now: Timestamp,
    ) {
        let print = &member.fingerprint;
        if action == Action::Reset {
            return self.forget(print);
        }
        if !member.algorithm.changes(action, &answer.state) {
            return;
        }
        let is_there = |entry: &usize| self.is_at(*entry, print);
        let found = found.filter(is_there).or_else(|| self.find(print));
        if let Some(entry) = found.or_else(|| self.add(member)) {
            self.update(entry, action, member, answer, now);
        }
    }

    fn is_at(&self, entry: usize, print: &Fingerprint) -> bool {
        entry < self.records.len() && self.records[entry].print == *print
    }

    fn update(
        &mut self,
        entry: usize,
        action: Action,
        member: &Member<'_>,
        answer: &Answer,
        now: Timestamp,
    ) {
        let record = &mut self.records[entry];
        let before = record.stored.allocated_bytes();
        record
            .stored
            .keep(member.algorithm, action, answer.state, now);
        self.heap_bytes = self.heap_bytes + record.stored.allocated_bytes() - before;
        if record.stored.is_nothing() {
            return self.remove(entry);
        }
        if !record.terms.is_of(member.algorithm)
            && let Some(terms) = member.algorithm.history_terms()
        {
            record.terms = terms;
        }
        let used = record
            .terms
            .assess_changed(&record.stored, &answer.state, now);
        let standing = HistoryStanding::new(used);
        self.rank(entry, standing.rank);
        // The instant is often later than the queue says. It is only corrected when its turn comes, which is cheaper than
        // moving it with each charge.
        if standing.due < self.dues.key(entry) {
            self.dues.set(entry, standing.due);
        }
        self.assess_due(STEPS, now);
    }

    /// Sets the rank of a history, unless it is spared.
    fn rank(&mut self, entry: usize, rank: u64) {
        let queued = self.ranks.key(entry);
        if queued != rank && queued != SPARED {
            self.ranks.set(entry, rank);
        }
    }

    #[inline]
    pub(super) fn find(&self, print: &Fingerprint) -> Option<usize> {
        let matches = |entry: usize| self.records[entry].print == *print;
        self.index.find(print.low, matches)
    }

    /// Adds a history. It lapses when its first change is stored.
    fn add(&mut self, member: &Member<'_>) -> Option<usize> {
        let terms = member.algorithm.history_terms()?;
        let entry = self.records.len();
        self.records.push(Record {
            print: member.fingerprint,
            stored: Stored::default(),
            terms,
        });
        self.ranks.push(0);
        self.dues.push(u64::MAX);
        self.index.push(|entry| self.records[entry].print.low);
        Some(entry)
    }

    pub(super) fn forget(&mut self, print: &Fingerprint) {
        if let Some(entry) = self.find(print) {
            self.remove(entry);
        }
    }

    fn remove(&mut self, entry: usize) {
        self.ranks.swap_remove(entry);
        self.dues.swap_remove(entry);
        self.index
            .swap_remove(entry, |entry| self.records[entry].print.low);
        if let Some(record) = self.records.swap_remove(entry) {
            self.heap_bytes -= record.stored.allocated_bytes();
        }
    }

    /// Assesses up to `most` histories whose standing may have changed by itself, and forgets those that have lapsed.
    /// Returns their number.
    ///
    /// A charge leads to one such change, when its units leave the window. So the few that follow each charge are
    /// enough in the long run.
    pub(super) fn assess_due(&mut self, most: usize, now: Timestamp) -> usize {
        for nth in 0..most {
            match self.dues.first() {
                Some((instant, entry)) if instant <= now.as_micros() => {
                    let standing = self.assess(entry, now);
                    if standing.lapses() <= now.as_micros() {
                        self.remove(entry);
                    }
                }
                _ => return nth,
            }
        }
        most
    }

    fn assess(&mut self, entry: usize, now: Timestamp) -> HistoryStanding {
        let record = &self.records[entry];
        let standing = HistoryStanding::new(record.terms.assess(&record.stored, now));
        self.dues.set(entry, standing.due.max(now.as_micros() + 1));
        self.rank(entry, standing.rank);
        standing
    }

    /// Keeps a history from being evicted.
    pub(super) fn spare(&mut self, print: &Fingerprint) {
        self.spared.push(*print);
        if let Some(entry) = self.find(print) {
            self.ranks.set(entry, SPARED);
        }
    }

    /// Takes back one call of [`spare`](Self::spare).
    pub(super) fn spare_no_more(&mut self, print: &Fingerprint, now: Timestamp) {
        if let Some(nth) = self.spared.iter().position(|spared| spared == print) {
            self.spared.swap_remove(nth);
        }
        if let Some(entry) = self.find(print)
            && !self.spared.contains(print)
        {
            let Record { stored, terms, .. } = &self.records[entry];
            let standing = HistoryStanding::new(terms.assess(stored, now));
            self.ranks.set(entry, standing.rank);
        }
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

    /// Each history is in its place, and all bytes are counted.
    #[cfg(test)]
    pub(super) fn check(&self) {
        for (entry, record) in self.records.iter().enumerate() {
            let rank = self.ranks.key(entry);
            let lapses = HistoryStanding { rank, due: 0 }.lapses();
            assert!(rank < SPARED && self.dues.key(entry) <= lapses);
            assert_eq!(self.find(&record.print), Some(entry));
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
