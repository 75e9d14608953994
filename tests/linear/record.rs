//! The record of a history.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use super::checker::{Answer, Call, Event, Keeper};

/// The calls that were answered or given up, and the order of their beginnings and ends.
#[derive(Debug, Default)]
pub(super) struct Record {
    entries: Mutex<Vec<Entry>>,
    ticks: AtomicU64,
}

#[derive(Clone, Debug)]
struct Entry {
    event: Event,
    service: usize,
    by_cache: bool,
}

/// The beginning of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) service: usize,
    pub(super) now: u64,
    pub(super) tick: u64,
}

impl Record {
    pub(super) fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, SeqCst)
    }

    /// How many there were.
    pub(super) fn ticks(&self) -> u64 {
        self.ticks.load(SeqCst)
    }

    /// Adds a call of the store's buckets.
    pub(super) fn add(&self, begun: Begun, call: Call, answer: Answer) {
        self.push(begun, (Keeper::Store, call), answer, false);
    }

    /// Adds a denial that a process has remembered.
    pub(super) fn add_cached(&self, begun: Begun, call: Call, answer: Answer) {
        self.push(begun, (Keeper::Store, call), answer, true);
    }

    /// Adds a call of the buckets that the process has decided by itself.
    pub(super) fn add_local(&self, begun: Begun, call: Call, answer: Answer) {
        let keeper = Keeper::Process(begun.service);
        self.push(begun, (keeper, call), answer, false);
    }

    fn push(&self, begun: Begun, (keeper, call): (Keeper, Call), answer: Answer, by_cache: bool) {
        let event = Event {
            keeper,
            call,
            answer,
            now: begun.now,
            begun: begun.tick,
            ended: self.tick(),
        };
        self.entries.lock().unwrap().push(Entry {
            event,
            service: begun.service,
            by_cache,
        });
    }

    /// All calls, but for the remembered denials that can be outdated. If answers are lost on the way, that holds for a
    /// refund of the same process, too: the server can still find it after a later call on another connection.
    pub(super) fn take(&self, loses_answers: bool) -> Vec<Event> {
        let entries = std::mem::take(&mut *self.entries.lock().unwrap());
        let outdates = |denial: &Entry, other: &Entry| {
            let is_unsure = loses_answers && other.event.answer == Answer::Unknown;
            let is_elsewhere = other.service != denial.service || is_unsure;
            other.event.keeper == Keeper::Store
                && other.event.begun < denial.event.ended
                && match other.event.call {
                    Call::Spend(_) => false,
                    Call::Refund { .. } => is_elsewhere,
                    Call::FailOver => true,
                }
        };
        let counts = |entry: &&Entry| {
            let mut others = entries.iter();
            !entry.by_cache || !others.any(|other| outdates(entry, other))
        };
        let kept = entries.iter().filter(counts);
        kept.map(|entry| entry.event.clone()).collect()
    }
}
