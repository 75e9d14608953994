//! A shard's buckets with tiers: a bounded map of histories, in which one that has lapsed is as good as a free
//! place.

use std::{
    fmt,
    hash::{BuildHasherDefault, Hash, Hasher},
};

use indexmap::IndexMap;

use super::{fingerprint::Fingerprint, table::BUCKET_BYTES};
use crate::{
    clock::Timestamp,
    tiers::{Grant, History, Tiers},
};

/// How many are looked at, after each that is new, for such that have lapsed.
const SWEEP: usize = 2;
/// How many are compared before one is evicted.
const SAMPLE: usize = 16;
/// What one takes in the map beside its history: a hash, and places that are free.
const ENTRY_BYTES: usize = 2 * size_of::<(u64, Fingerprint, Record)>();

#[derive(Default)]
pub(super) struct Histories {
    records: IndexMap<Fingerprint, Record, BuildHasherDefault<Lane>>,
    /// What all of them take.
    bytes: usize,
    /// The record that was looked at last.
    hand: usize,
    evictions: u64,
}

#[derive(Debug, Default)]
struct Record {
    history: History,
    /// From when on nothing depends on it any more.
    lapses: u64,
}

impl Record {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.history.heap_bytes()
    }
}

impl Histories {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// How many buckets without tiers would take as much.
    pub(super) fn weight(&self) -> usize {
        self.bytes.div_ceil(BUCKET_BYTES)
    }

    /// Where a bucket is: good until one is forgotten or added.
    pub(super) fn find(&self, print: &Fingerprint) -> Option<usize> {
        self.records.get_index_of(print)
    }

    pub(super) fn get(&self, place: usize) -> Option<&History> {
        let (_, record) = self.records.get_index(place)?;
        Some(&record.history)
    }

    /// Writes down what has been granted from the bucket that was found at `place`. Returns whether it takes more memory
    /// than before.
    pub(super) fn take(
        &mut self,
        place: Option<usize>,
        print: &Fingerprint,
        tiers: &Tiers,
        grant: Grant,
        now: Timestamp,
    ) -> bool {
        let now = now.as_micros();
        let place = place.unwrap_or_else(|| {
            self.sweep(now);
            self.bytes += ENTRY_BYTES;
            self.records.insert_full(*print, Record::default()).0
        });
        let record = &mut self.records[place];
        let before = record.history.heap_bytes();
        record.history.take(tiers, grant, now);
        record.lapses = record.history.lapses_at(tiers);
        let after = record.history.heap_bytes();
        self.bytes = self.bytes + after - before;
        after > before || before == 0
    }

    pub(super) fn forget(&mut self, print: &Fingerprint) {
        if let Some(record) = self.records.swap_remove(print) {
            self.bytes -= record.bytes();
        }
    }

    /// Forgets what has lapsed among the next few.
    fn sweep(&mut self, now: u64) {
        for _ in 0..SWEEP {
            if self.next().is_some_and(|lapses| lapses <= now) {
                self.remove(self.hand);
            }
        }
    }

    /// Evicts that of a sample which lapses soonest, other than the bucket that it makes room for.
    ///
    /// The sample is of places all over the map: those that came one after the other may all be locked out.
    pub(super) fn evict(&mut self, spared: Option<&Fingerprint>) {
        let len = self.records.len();
        let stride = (len / SAMPLE).max(1);
        let places = (0..SAMPLE.min(len)).map(|nth| (self.hand + nth * stride) % len);
        let sample = places.filter_map(|place| {
            let (print, record) = self.records.get_index(place)?;
            (Some(print) != spared).then_some((record.lapses, place))
        });
        if let Some((_, place)) = sample.min() {
            self.remove(place);
            self.evictions += 1;
        }
        self.hand += 1;
    }

    /// How many were evicted.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// When the record at the next place lapses.
    fn next(&mut self) -> Option<u64> {
        self.hand = (self.hand + 1) % self.records.len().max(1);
        let (_, record) = self.records.get_index(self.hand)?;
        Some(record.lapses)
    }

    fn remove(&mut self, place: usize) {
        if let Some((_, record)) = self.records.swap_remove_index(place) {
            self.bytes -= record.bytes();
        }
    }
}

impl fmt::Debug for Histories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histories")
            .field("len", &self.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// Hands on the half of a fingerprint, which is a hash already.
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
