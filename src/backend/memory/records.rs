//! The histories of one shard: a map, and a queue in which those that lapse first come first.

use std::{
    collections::BTreeSet,
    fmt,
    hash::{BuildHasherDefault, Hash, Hasher},
};

use indexmap::IndexMap;

use super::fingerprint::Fingerprint;
use crate::{
    clock::Timestamp,
    decision::{Answer, Seen, State, judge_tiers},
    tiers::{Grant, History, Tiers},
    transaction::{Member, Operation},
};

/// What a history takes beside its units: its places in the map, in the map's index and in the queue, with the room that
/// each of these keeps free.
pub(super) const RECORD_BYTES: usize = 256;

/// How many places of the queue are put right at most before one history is evicted.
const SAMPLE: usize = 16;
/// How many places of the queue are put right at most after each charge.
const STEPS: usize = 2;

#[derive(Default)]
pub(super) struct Records {
    map: IndexMap<Fingerprint, Record, BuildHasherDefault<Lane>>,
    /// Each history once, under an instant before which it does not lapse.
    queue: BTreeSet<(u64, Fingerprint)>,
    /// What the histories take beyond their own size.
    heap_bytes: usize,
    evictions: u64,
}

#[derive(Debug, Default)]
struct Record {
    history: History,
    /// When nothing depends on it any more.
    lapses: u64,
    /// The instant under which it is queued, once it is.
    queued: Option<u64>,
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

    /// An instant before which no history lapses, if there is any history.
    pub(super) fn soonest(&self) -> Option<u64> {
        self.queue.first().map(|(instant, _)| *instant)
    }

    pub(super) fn see(&self, print: &Fingerprint, tiers: &Tiers, now: Timestamp) -> Seen<'_> {
        match self.map.get(print) {
            Some(record) => Seen::Tiers(record.history.view(tiers, now.as_micros())),
            None => Seen::NOTHING,
        }
    }

    /// Decides a batch of one member.
    pub(super) fn decide(
        &mut self,
        operation: Operation,
        print: &Fingerprint,
        member: &Member<'_>,
        tiers: &Tiers,
        now: Timestamp,
    ) -> Answer {
        let unused = History::default();
        let history = self
            .map
            .get(print)
            .map_or(&unused, |record| &record.history);
        let view = history.view(tiers, now.as_micros());
        let answer = judge_tiers(operation, member, tiers, view);
        if answer.passed {
            self.write(operation, print, member, tiers, &answer, now);
        }
        answer
    }

    /// Stores what has been decided for a member: what it was granted, or that it begins anew.
    pub(super) fn write(
        &mut self,
        operation: Operation,
        print: &Fingerprint,
        member: &Member<'_>,
        tiers: &Tiers,
        answer: &Answer,
        now: Timestamp,
    ) {
        match answer.state {
            State::Tiers(figures) => {
                let takes = operation == Operation::Spend && member.mode.spends();
                if takes && figures.grant.units() > 0 {
                    self.take(print, tiers, figures.grant, now);
                }
            }
            State::Gcra(_) => self.forget(print),
        }
    }

    fn take(&mut self, print: &Fingerprint, tiers: &Tiers, grant: Grant, now: Timestamp) {
        let now = now.as_micros();
        self.make_room();
        let record = self.map.entry(*print).or_default();
        let before = record.history.heap_bytes();
        record.history.take(tiers, grant, now);
        record.lapses = record.history.lapses_at(tiers);
        self.heap_bytes = self.heap_bytes + record.history.heap_bytes() - before;
        // A history that lapses later than it is queued for is requeued when its turn comes.
        if record.queued.is_none_or(|queued| record.lapses < queued) {
            self.requeue(print);
        }
        self.forget_lapsed(now);
    }

    /// Lets the map grow by an eighth, not to twice its size.
    fn make_room(&mut self) {
        if self.map.len() == self.map.capacity() {
            self.map.reserve_exact(self.map.len() / 8 + 1);
        }
    }

    pub(super) fn forget(&mut self, print: &Fingerprint) {
        let Some(record) = self.map.swap_remove(print) else {
            return;
        };
        self.heap_bytes -= record.history.heap_bytes();
        if let Some(queued) = record.queued {
            self.queue.remove(&(queued, *print));
        }
        let len = self.map.len();
        if len < self.map.capacity() / 4 * 3 {
            self.map.shrink_to(len + len / 8);
        }
    }

    /// Forgets what has lapsed, or puts its place in the queue right, for the next few whose turn has come.
    fn forget_lapsed(&mut self, now: u64) {
        for _ in 0..STEPS {
            match self.queue.first() {
                Some((instant, print)) if *instant <= now => {
                    let print = *print;
                    if self.requeue(&print) <= now {
                        self.forget(&print);
                    }
                }
                _ => return,
            }
        }
    }

    /// Forgets the history that lapses soonest, apart from some, and returns whether there was any. If many places in the
    /// queue are out of date, it is the soonest of a sample.
    pub(super) fn evict(&mut self, spared: &[Fingerprint], now: Timestamp) -> bool {
        let mut sample = None;
        for _ in 0..SAMPLE {
            let mut queue = self.queue.iter();
            let Some(&(queued, print)) = queue.find(|(_, print)| !spared.contains(print)) else {
                break;
            };
            let lapses = self.requeue(&print);
            sample = sample.into_iter().chain([(lapses, print)]).min();
            if lapses == queued {
                break;
            }
        }
        let Some((lapses, print)) = sample else {
            return false;
        };
        self.forget(&print);
        self.evictions += u64::from(lapses > now.as_micros());
        true
    }

    /// Each history is queued once, not after it lapses, and all bytes are counted.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert_eq!(self.map.len(), self.queue.len());
        let queued = |(print, record): (&Fingerprint, &Record)| {
            let queued = record.queued.expect("it is queued");
            queued <= record.lapses && self.queue.contains(&(queued, *print))
        };
        assert!(self.map.iter().all(queued));
        let histories = self.map.values().map(|record| &record.history);
        let bytes: usize = histories.map(History::heap_bytes).sum();
        assert_eq!(self.heap_bytes, bytes);
    }

    /// Queues a history under the instant at which it lapses, and returns that.
    fn requeue(&mut self, print: &Fingerprint) -> u64 {
        let Some(record) = self.map.get_mut(print) else {
            return 0;
        };
        let queued = record.queued.replace(record.lapses);
        if queued != record.queued {
            if let Some(queued) = queued {
                self.queue.remove(&(queued, *print));
            }
            self.queue.insert((record.lapses, *print));
        }
        record.lapses
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

/// Hands on one half of a fingerprint, which is a hash already.
#[derive(Default)]
struct Lane(u64);

impl Hasher for Lane {
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

impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.low);
    }
}
