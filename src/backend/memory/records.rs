//! The histories of one shard, for buckets with tiers and windows: a map, and a queue in which histories that lapse
//! sooner come first.

use std::{
    fmt,
    hash::{BuildHasherDefault, Hasher},
};

use indexmap::IndexMap;

use super::queue::Queue;
use crate::{
    clock::Timestamp,
    decision::{Answer, BucketView, State, Stored, judge_tiers, judge_window},
    tiers::History,
    transaction::{Action, Algorithm, Fingerprint, Member},
    window::WindowView,
};

/// The bytes of a history without its units: its places in the map, in the map's index and in the queue, with the room that
/// each of these keeps free.
pub(super) const RECORD_BYTES: usize = 192;

/// The most places of the queue that are corrected before one history is evicted.
const SAMPLE: usize = 16;
/// The most places of the queue that are corrected after each charge.
const STEPS: usize = 2;
/// The key of a history that never lapses.
const NEVER: u64 = u64::MAX - 1;
/// The key of a history that must not be evicted now.
const SPARED: u64 = u64::MAX;

#[derive(Default)]
pub(super) struct Records {
    map: IndexMap<Fingerprint, Record, BuildHasherDefault<HashHalf>>,
    /// The entries of the map, each with an instant before which it does not lapse.
    queue: Queue,
    /// The bytes of the histories beyond their own size.
    heap_bytes: usize,
    evictions: u64,
}

#[derive(Debug, Default)]
struct Record {
    stored: Stored,
    /// The instant from which nothing depends on it, or [`NEVER`].
    lapses: u64,
}

impl Records {
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.map.len() * RECORD_BYTES + self.heap_bytes
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Returns an instant before which no history lapses; `u64::MAX` if none may be evicted.
    pub(super) fn soonest(&self) -> Option<u64> {
        self.queue.first().map(|(instant, _)| instant)
    }

    pub(super) fn see(&self, member: &Member<'_>, now: Timestamp) -> BucketView<'_> {
        match self.map.get(&member.fingerprint) {
            Some(record) => record.stored.see(member.algorithm, now),
            None => BucketView::NOTHING,
        }
    }

    /// Decides a member with a window or with tiers, and stores the change.
    pub(super) fn decide(&mut self, action: Action, member: &Member<'_>, now: Timestamp) -> Answer {
        let found = self.map.get_index_of(&member.fingerprint);
        let (stored, at) = (found.map(|entry| &self.map[entry].stored), now.as_micros());
        let answer = match (member.algorithm, stored) {
            (Algorithm::Window(window), Some(stored)) => {
                judge_window(action, member, window, &stored.view_window(window, now))
            }
            (Algorithm::Window(window), None) => {
                judge_window(action, member, window, &WindowView::empty(at))
            }
            (Algorithm::Tiers(tiers), Some(Stored::Tiers(history))) => {
                judge_tiers(action, member, tiers, &mut history.view(tiers, at))
            }
            (Algorithm::Tiers(tiers), _) => judge_tiers(
                action,
                member,
                tiers,
                &mut History::default().view(tiers, at),
            ),
            (Algorithm::Gcra(_) | Algorithm::Quota(_), _) => return Answer::UNKNOWN,
        };
        self.keep(found, action, member, &answer, now);
        answer
    }

    /// Stores the change of a member, in the entry found for it or in a new one.
    fn keep(
        &mut self,
        found: Option<usize>,
        action: Action,
        member: &Member<'_>,
        answer: &Answer,
        now: Timestamp,
    ) {
        if changes(action, answer) {
            let entry = found.unwrap_or_else(|| self.add(&member.fingerprint));
            self.update(entry, action, member, answer, now);
        }
    }

    /// Stores the decision on a member: a grant, a refund or a reset.
    pub(super) fn write(
        &mut self,
        action: Action,
        member: &Member<'_>,
        answer: &Answer,
        now: Timestamp,
    ) {
        let print = &member.fingerprint;
        if action == Action::Reset {
            self.forget(print);
        } else {
            let found = self.map.get_index_of(print);
            self.keep(found, action, member, answer, now);
        }
    }

    fn update(
        &mut self,
        entry: usize,
        action: Action,
        member: &Member<'_>,
        answer: &Answer,
        now: Timestamp,
    ) {
        let record = &mut self.map[entry];
        let before = record.stored.heap_bytes();
        record.stored.update(action, member, answer, now);
        let lapses = record.stored.full_at(member.algorithm);
        record.lapses = lapses.map_or(NEVER, |at| at.as_micros().min(NEVER));
        self.heap_bytes = self.heap_bytes + record.stored.heap_bytes() - before;
        if record.stored == Stored::Nothing {
            return self.remove(entry);
        }
        // A history often lapses later than its place in the queue says. The place is only corrected when its turn
        // comes, which is cheaper than moving it with each charge.
        let queued = self.queue.key(entry);
        if record.lapses < queued && queued < SPARED {
            self.queue.set(entry, record.lapses);
        }
        self.forget_lapsed(now.as_micros());
    }

    /// Adds a history. The map and the queue grow by an eighth, not to twice their size.
    fn add(&mut self, print: &Fingerprint) -> usize {
        if self.map.len() == self.map.capacity() {
            let more = self.map.len() / 8 + 1;
            self.map.reserve_exact(more);
            self.queue.reserve_exact(more);
        }
        self.queue.push(NEVER);
        self.map.insert_full(*print, Record::default()).0
    }

    pub(super) fn forget(&mut self, print: &Fingerprint) {
        if let Some(entry) = self.map.get_index_of(print) {
            self.remove(entry);
        }
    }

    fn remove(&mut self, entry: usize) {
        self.queue.swap_remove(entry);
        if let Some((_, record)) = self.map.swap_remove_index(entry) {
            self.heap_bytes -= record.stored.heap_bytes();
        }
        let len = self.map.len();
        if len < self.map.capacity() / 4 * 3 {
            self.map.shrink_to(len + len / 8);
            self.queue.shrink_to(len + len / 8);
        }
    }

    /// Checks the next few histories in the queue that are due. Forgets a history that has lapsed, and moves any other to
    /// its correct place.
    fn forget_lapsed(&mut self, now: u64) {
        for _ in 0..STEPS {
            match self.queue.first() {
                Some((instant, entry)) if instant <= now => {
                    if self.requeue(entry) <= now {
                        self.remove(entry);
                    }
                }
                _ => return,
            }
        }
    }

    /// Keeps a history from being evicted.
    pub(super) fn spare(&mut self, print: &Fingerprint) {
        if let Some(entry) = self.map.get_index_of(print) {
            self.queue.set(entry, SPARED);
        }
    }

    pub(super) fn spare_no_more(&mut self, print: &Fingerprint) {
        if let Some(entry) = self.map.get_index_of(print) {
            self.requeue(entry);
        }
    }

    /// Evicts the history that lapses soonest. If many places in the queue are out of date, it is the soonest of a
    /// sample.
    pub(super) fn evict(&mut self, now: Timestamp) {
        if let Some((lapses, entry)) = self.soonest_of_sample() {
            self.remove(entry);
            self.evictions += u64::from(lapses > now.as_micros());
        }
    }

    /// Samples the front of the queue. Returns the history that lapses soonest, and the instant. Spared histories are
    /// left out.
    fn soonest_of_sample(&mut self) -> Option<(u64, usize)> {
        let mut sample = None;
        for _ in 0..SAMPLE {
            let Some((queued, entry)) = self.queue.first().filter(|first| first.0 < SPARED) else {
                break;
            };
            let lapses = self.requeue(entry);
            sample = sample.into_iter().chain([(lapses, entry)]).min();
            if lapses == queued {
                break;
            }
        }
        sample
    }

    /// Queues a history by the instant at which it lapses, and returns that instant.
    fn requeue(&mut self, entry: usize) -> u64 {
        let lapses = self.map[entry].lapses;
        self.queue.set(entry, lapses);
        lapses
    }

    /// Each history is queued, not after it lapses, and all bytes are counted.
    #[cfg(test)]
    pub(super) fn check(&self) {
        for (entry, record) in self.map.values().enumerate() {
            assert!(self.queue.key(entry) <= record.lapses);
        }
        let histories = self.map.values().map(|record| &record.stored);
        let bytes: usize = histories.map(Stored::heap_bytes).sum();
        assert_eq!(self.heap_bytes, bytes);
        assert!(self.map.capacity() <= (self.map.len() + 1) * 4 / 3 + 4);
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

/// Returns whether an answer changes the stored state of its bucket.
fn changes(action: Action, answer: &Answer) -> bool {
    match answer.state {
        State::Tiers(figures) => action == Action::Spend && figures.grant.units() > 0,
        State::Window(figures) => action.writes() && figures.change.units() > 0,
        State::Gcra(_) | State::Quota(_) => false,
    }
}

/// Passes on one half of a fingerprint, which is already a hash.
#[derive(Default)]
struct HashHalf(u64);

impl Hasher for HashHalf {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, lane: u64) {
        self.0 = lane;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
