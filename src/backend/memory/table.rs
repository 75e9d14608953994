//! A bounded hash table of TATs, in which a bucket that is full again *is* a free place.
//!
//! Each fingerprint belongs to two rows of eight slots. It is looked for in both, and a new one
//! goes to the emptier if the first is crowded. If both are full, one of their buckets moves to its
//! other row. That needs no tombstones, lets the table fill to four fifths before it grows, and
//! makes the slots of two rows a random sample of the table when a bucket has to go.
//!
//! A row is three cache lines. The first holds what is searched, 32 bits of fingerprint for each
//! slot, so that a bucket is hardly ever more than one cache miss and its neighbour away.

use std::fmt;

use super::{
    bucket::Bucket,
    fingerprint::{Fingerprint, pick},
};
use crate::{
    clock::Timestamp,
    gcra::{Tat, Ticks},
};

/// What a bucket takes, about, with the places that are free.
pub(super) const BUCKET_BYTES: usize = 32;

const SLOTS: usize = 8;
const MIN_ROWS: usize = 2;
/// A row with fewer free slots is crowded.
const ROOMY: usize = 3;
/// How many buckets are compared before one is evicted.
const SAMPLE: usize = 2 * SLOTS;
/// How many rows at most are looked through, at the cap, for buckets that are full again.
const SWEEP: usize = 16;

pub(super) struct Table {
    rows: Vec<Row>,
    occupied: usize,
    cap: usize,
    /// The most that the cap can be.
    size: usize,
    /// The row that was swept last.
    hand: usize,
    /// How many buckets were forgotten for want of room.
    evictions: u64,
}

/// The slots of a row: their tags, zero where there is no bucket, and their buckets.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Row {
    tags: [u32; SLOTS],
    buckets: [Bucket; SLOTS],
}

/// Where a slot is: good until the table is next changed.
#[derive(Clone, Copy)]
pub(super) struct Place(usize);

impl Place {
    fn new(row: usize, slot: usize) -> Self {
        Self(row * SLOTS + slot)
    }

    fn row(self) -> usize {
        self.0 / SLOTS
    }

    fn slot(self) -> usize {
        self.0 % SLOTS
    }
}

impl Table {
    pub(super) fn new(cap: usize) -> Self {
        Self {
            rows: Vec::new(),
            occupied: 0,
            cap,
            size: cap,
            hand: 0,
            evictions: 0,
        }
    }

    /// Lowers the cap, or raises it again. What is there stays, in no more rows than it needs.
    pub(super) fn set_cap(&mut self, cap: usize, now: Timestamp) {
        self.cap = cap.clamp(1, self.size);
        let most = self.max_rows();
        if self.rows.len() > most + most / 8 {
            self.move_to(most, now);
        }
    }

    /// How many buckets were forgotten for want of room.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    pub(super) fn occupied(&self) -> usize {
        self.occupied
    }

    /// Where a bucket is.
    #[inline(always)]
    pub(super) fn find(&self, print: &Fingerprint) -> Option<Place> {
        if self.rows.is_empty() {
            return None;
        }
        let [first, second] = self.rows_of(print.low);
        self.find_in(first, print)
            .or_else(|| self.find_in(second, print))
    }

    #[inline]
    fn find_in(&self, row: usize, print: &Fingerprint) -> Option<Place> {
        let mut matches = self.rows[row].matches(tag(print));
        while matches != 0 {
            let place = Place::new(row, matches.trailing_zeros() as usize);
            if self.bucket(place).is_of(print) {
                return Some(place);
            }
            matches &= matches - 1;
        }
        None
    }

    /// The TAT of the bucket at a place, 0 if there is none.
    #[inline]
    pub(super) fn tat(&self, place: Option<Place>) -> Tat {
        place.map_or(Tat::default(), |place| self.bucket(place).tat())
    }

    pub(super) fn get(&self, print: &Fingerprint) -> Tat {
        self.tat(self.find(print))
    }

    /// Stores the TAT of the bucket that was found at `place`. A new one takes the place of
    /// another if it must.
    #[inline]
    pub(super) fn set(
        &mut self,
        place: Option<Place>,
        print: &Fingerprint,
        tat: Tat,
        tolerance: Ticks,
        now: Timestamp,
    ) {
        let full = tat <= Tat::from_micros(now.as_micros());
        match place {
            Some(place) if full => self.forget(place),
            Some(place) => *self.bucket_mut(place) = Bucket::new(print, tat, tolerance),
            None if full => {}
            None => {
                let place = self.vacate(print, now);
                self.put(place, tag(print), Bucket::new(print, tat, tolerance));
            }
        }
    }

    /// The two rows in which a fingerprint may be.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "each half picks one row")]
    fn rows_of(&self, low: u64) -> [usize; 2] {
        let first = pick(low as u32, self.rows.len());
        let second = pick((low >> 32) as u32, self.rows.len() - 1);
        [first, if second < first { second } else { second + 1 }]
    }

    /// Makes a place for a new bucket and counts it: a free one, one that is full again, one in a
    /// larger table or, at the cap, that of the bucket nearest to full.
    fn vacate(&mut self, print: &Fingerprint, now: Timestamp) -> Place {
        loop {
            if self.occupied >= self.cap {
                self.sweep(now);
            }
            if !self.rows.is_empty() {
                let rows = self.rows_of(print.low);
                if let Some(place) = self.vacancy(rows, now) {
                    return place;
                }
                if self.occupied >= self.cap {
                    return self.evict(rows, now);
                }
                let largest = self.rows.len() >= self.max_rows();
                if (largest || !self.is_dense())
                    && let Some(place) = self.make_way(rows)
                {
                    return place;
                }
                if largest {
                    return self.evict(rows, now);
                }
            }
            self.grow(now);
        }
    }

    /// Whether more than four fifths of the slots are occupied.
    fn is_dense(&self) -> bool {
        self.occupied * 5 > self.rows.len() * SLOTS * 4
    }

    /// Moves a bucket of two rows that have no free place to the other of its own two, and returns
    /// the place that it leaves.
    fn make_way(&mut self, rows: [usize; 2]) -> Option<Place> {
        let (place, free) = self.occupied_in(rows).find_map(|place| {
            let own = self.rows_of(self.bucket(place).low());
            let other = if place.row() == own[0] {
                own[1]
            } else {
                own[0]
            };
            Some((place, self.free([other, other])?))
        })?;
        self.put(free, self.tag(place), *self.bucket(place));
        self.occupied += 1;
        Some(place)
    }

    /// Forgets what is full again in the next few rows, up to the first that has any.
    fn sweep(&mut self, now: Timestamp) {
        let before = self.occupied;
        for _ in 0..SWEEP.min(self.rows.len()) {
            self.hand = (self.hand + 1) % self.rows.len();
            for slot in 0..SLOTS {
                let place = Place::new(self.hand, slot);
                if self.tag(place) != 0 && self.bucket(place).is_full(now) {
                    self.forget(place);
                }
            }
            if self.occupied < before {
                return;
            }
        }
    }

    /// A place in one of two rows that is free or whose bucket is full again.
    fn vacancy(&mut self, rows: [usize; 2], now: Timestamp) -> Option<Place> {
        if self.occupied < self.cap
            && let Some(place) = self.free(rows)
        {
            self.occupied += 1;
            return Some(place);
        }
        self.occupied_in(rows)
            .find(|place| self.bucket(*place).is_full(now))
    }

    /// A free place in the first of two rows or, if that is crowded, in the emptier.
    fn free(&self, [first, second]: [usize; 2]) -> Option<Place> {
        let free = |row: usize| self.rows[row].matches(0).count_ones() as usize;
        let row = match free(first) {
            room if room < ROOMY && free(second) > room => second,
            _ => first,
        };
        let slot = self.rows[row].tags.iter().position(|tag| *tag == 0)?;
        Some(Place::new(row, slot))
    }

    /// Evicts the bucket nearest to full of a sample and returns a place in one of two rows.
    fn evict(&mut self, rows: [usize; 2], now: Timestamp) -> Place {
        let following = (1..self.rows.len()).map(|i| (rows[1] + i) % self.rows.len());
        let nearest = self
            .nearest_to_full(rows.into_iter().chain(following), now)
            .expect("a table at its cap holds a bucket");
        self.evictions += 1;
        let Some(free) = self.free(rows) else {
            return nearest;
        };
        self.clear(nearest);
        free
    }

    /// Forgets the bucket nearest to full of a sample, whatever the cap.
    pub(super) fn shed(&mut self, now: Timestamp) {
        let rows = self.rows.len();
        let following = (1..=rows).map(|i| (self.hand + i) % rows);
        if let Some(nearest) = self.nearest_to_full(following, now) {
            self.hand = nearest.row();
            self.evictions += 1;
            self.forget(nearest);
        }
    }

    /// The bucket nearest to full among the first few in some rows.
    fn nearest_to_full(
        &self,
        rows: impl IntoIterator<Item = usize>,
        now: Timestamp,
    ) -> Option<Place> {
        let sample = self.occupied_in(rows).take(SAMPLE);
        sample.min_by_key(|place| self.bucket(*place).debt(now))
    }

    /// Moves what is not full yet to a table a quarter larger.
    fn grow(&mut self, now: Timestamp) {
        let mut target = (self.rows.len() * 5 / 4 + 1).clamp(MIN_ROWS, self.max_rows());
        while !self.move_to(target, now) {
            target += target / 4 + 1;
        }
    }

    fn move_to(&mut self, rows: usize, now: Timestamp) -> bool {
        let mut table = Self::new(self.size);
        (table.cap, table.evictions) = (self.cap, self.evictions);
        table.rows = vec![Row::default(); rows];
        for place in self.occupied_in(0..self.rows.len()) {
            let bucket = *self.bucket(place);
            if bucket.is_full(now) {
                continue;
            }
            let Some(free) = table.free(table.rows_of(bucket.low())) else {
                return false;
            };
            table.put(free, self.tag(place), bucket);
            table.occupied += 1;
        }
        *self = table;
        true
    }

    /// Enough rows that two of them are hardly ever full before the cap is reached.
    fn max_rows(&self) -> usize {
        (self.cap + self.cap / 3) / SLOTS + MIN_ROWS
    }

    #[inline]
    fn bucket(&self, place: Place) -> &Bucket {
        &self.rows[place.row()].buckets[place.slot()]
    }

    #[inline]
    fn bucket_mut(&mut self, place: Place) -> &mut Bucket {
        &mut self.rows[place.row()].buckets[place.slot()]
    }

    fn tag(&self, place: Place) -> u32 {
        self.rows[place.row()].tags[place.slot()]
    }

    fn put(&mut self, place: Place, tag: u32, bucket: Bucket) {
        let row = &mut self.rows[place.row()];
        row.tags[place.slot()] = tag;
        row.buckets[place.slot()] = bucket;
    }

    fn forget(&mut self, place: Place) {
        self.clear(place);
        self.occupied -= 1;
    }

    fn clear(&mut self, place: Place) {
        self.put(place, 0, Bucket::default());
    }

    fn occupied_in(&self, rows: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Place> {
        rows.into_iter().flat_map(|row| {
            let tags = self.rows[row].tags.into_iter().enumerate();
            tags.filter(|(_, tag)| *tag != 0)
                .map(move |(slot, _)| Place::new(row, slot))
        })
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("occupied", &self.occupied)
            .field("cap", &self.cap)
            .finish_non_exhaustive()
    }
}

impl Row {
    /// One bit for each slot that has this tag. Without branches, so that it becomes a few vector
    /// instructions.
    #[inline]
    fn matches(&self, tag: u32) -> u32 {
        let bit = |(slot, other): (usize, &u32)| u32::from(*other == tag) << slot;
        self.tags
            .iter()
            .enumerate()
            .map(bit)
            .fold(0, |bits, bit| bits | bit)
    }
}

/// The part of a fingerprint that is searched for. Never zero.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn tag(print: &Fingerprint) -> u32 {
    (print.high as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);
    const SECOND: Ticks = Ticks::from_micros(1_000_000);

    /// Well-spread fingerprints, the same in each run.
    fn print(n: u64) -> Fingerprint {
        let mix = |n: u64| {
            let n = (n ^ n >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        Fingerprint {
            low: mix(2 * n + 1),
            high: mix(2 * n + 2),
        }
    }

    fn tat(after_us: u64) -> Tat {
        Tat {
            us: NOW.as_micros() + after_us,
            frac: 0,
        }
    }

    fn put(table: &mut Table, n: u64, after_us: u64, tolerance: Ticks) {
        let place = table.find(&print(n));
        table.set(place, &print(n), tat(after_us), tolerance, NOW);
    }

    fn held(table: &Table, range: std::ops::Range<u64>) -> usize {
        range
            .filter(|n| table.get(&print(*n)) != Tat::default())
            .count()
    }

    #[test]
    fn keeps_every_bucket_up_to_nearly_the_cap() {
        let mut table = Table::new(4096);
        for n in 0..4096 {
            put(&mut table, n, 1 + n, SECOND);
        }
        assert_eq!(table.occupied(), 4096);
        for n in 0..4096 {
            assert_eq!(table.get(&print(n)), tat(1 + n), "bucket {n}");
        }
        let slots = table.rows.len() * SLOTS;
        assert!(slots <= 4096 * 4 / 3 + 2 * SLOTS, "{slots} slots");
    }

    #[test]
    fn table_stays_at_least_half_full_while_it_grows() {
        let mut table = Table::new(1_000_000);
        for n in 0..100_000 {
            put(&mut table, n, 1 + n, SECOND);
            let slots = table.rows.len() * SLOTS;
            assert!(
                slots <= 64 || slots <= 2 * table.occupied(),
                "{slots} for {n}"
            );
        }
        assert_eq!(held(&table, 0..100_000), 100_000);
    }

    #[test]
    fn never_holds_more_than_the_cap() {
        for cap in [1, 2, 7, 16, 17, 100] {
            let mut table = Table::new(cap);
            for n in 0..1000 {
                put(&mut table, n, 500_000, SECOND);
                assert!(table.occupied() <= cap);
                assert_eq!(table.get(&print(n)), tat(500_000), "the newcomer {n} is in");
            }
            assert_eq!(held(&table, 0..1000), cap);
        }
    }

    #[test]
    fn bucket_nearest_to_full_goes_first() {
        let mut table = Table::new(1000);
        for n in 0..10 {
            put(&mut table, n, 1_000_000, SECOND);
        }
        for n in 10..100_000 {
            put(&mut table, n, 50_000, SECOND);
        }
        assert_eq!(
            held(&table, 0..10),
            10,
            "an empty bucket outlives a flood of nearly full ones"
        );
    }

    #[test]
    fn nearness_is_relative_to_the_limit() {
        let mut table = Table::new(1000);
        let day = Ticks::from_micros(86_400_000_000);
        for n in 0..10 {
            put(&mut table, n, 1_000_000, SECOND);
        }
        for n in 10..100_000 {
            put(&mut table, n, 60_000_000, day);
        }
        assert_eq!(
            held(&table, 0..10),
            10,
            "a long limit's flood does not free a short one's client"
        );
    }

    #[test]
    fn full_buckets_are_taken_before_the_table_grows() {
        let mut table = Table::new(1_000_000);
        for n in 0..10_000 {
            put(&mut table, n, 1, SECOND);
        }
        let rows = table.rows.len();
        let later = Timestamp::from_micros(NOW.as_micros() + 1);
        for n in 10_000..15_000 {
            let tat = Tat {
                us: later.as_micros() + 1_000,
                frac: 0,
            };
            table.set(None, &print(n), tat, SECOND, later);
        }
        assert_eq!(table.rows.len(), rows);
        assert_eq!(held(&table, 10_000..15_000), 5_000);
    }

    #[test]
    fn bucket_that_is_made_full_is_forgotten() {
        let mut table = Table::new(16);
        put(&mut table, 1, 10, SECOND);
        put(&mut table, 1, 0, SECOND);
        put(&mut table, 2, 0, SECOND);
        assert_eq!(
            (table.occupied(), table.get(&print(1))),
            (0, Tat::default())
        );
    }
}
