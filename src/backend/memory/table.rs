//! A bounded hash table of buckets in rows. A bucket that is full again counts as a free place.
//!
//! Each fingerprint belongs to two rows. A look-up searches the first row and then the second. A new bucket goes to the
//! first row that has a free place. If neither row has one, a bucket of the two moves to its own other row. If those
//! rows are full too, a bucket of one of them moves first. The table needs no tombstones, and can fill to nine tenths
//! before it grows.
//!
//! Two rows instead of one probe sequence bound the work: a look-up reads two rows at most, hit or miss. Under a flood
//! of new ids, almost every look-up is a miss.

mod growth;

use std::fmt;

use super::{
    bucket::RowBucket,
    row::{Row, SLOTS},
    shard::pick,
};
use crate::{algorithm::RowValue, clock::Timestamp, transaction::Fingerprint};

const MIN_ROWS: usize = 2;
/// The number of buckets that are compared before one is evicted.
const SAMPLE: usize = 16;
/// The most rows that are searched, at the cap, for buckets that are full again.
const SWEEP: usize = 16;

pub(super) struct Table {
    rows: Vec<Row>,
    occupied: usize,
    cap: usize,
    /// The row that was swept last. The next sweep continues from there, so every row gets its turn, however the ids
    /// are spread.
    hand: usize,
    /// The number of evicted buckets.
    evictions: u64,
}

/// The place of a bucket, valid until the next change of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct BucketSlot {
    row: usize,
    slot: usize,
}

impl BucketSlot {
    /// The place of a bucket that is not stored.
    pub(super) const NONE: Self = Self {
        row: usize::MAX,
        slot: 0,
    };
}

impl Table {
    pub(super) fn new(cap: usize) -> Self {
        Self {
            rows: Vec::new(),
            occupied: 0,
            cap,
            hand: 0,
            evictions: 0,
        }
    }

    /// Returns the number of evicted buckets.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    pub(super) fn occupied(&self) -> usize {
        self.occupied
    }

    /// Returns the stored value of a bucket.
    #[cfg(test)]
    pub(super) fn get(&self, print: &Fingerprint) -> RowValue {
        self.look(print).0
    }

    /// Returns the stored value of a bucket, and its place, to [put](Self::put) another value there.
    #[inline(always)]
    pub(super) fn look(&self, print: &Fingerprint) -> (RowValue, BucketSlot) {
        let first = self.first_row(print.low);
        let Some(row) = self.rows.get(first) else {
            return (RowValue::FULL, BucketSlot::NONE);
        };
        match row.find(print) {
            Some((slot, bucket)) => (bucket.value(), BucketSlot { row: first, slot }),
            None => self.look_in_second(print, first),
        }
    }

    /// Returns the bucket at a place, if it is still there.
    #[inline(always)]
    fn bucket_at(&mut self, place: BucketSlot, print: &Fingerprint) -> Option<&mut RowBucket> {
        let bucket = self.rows.get_mut(place.row)?.0.get_mut(place.slot)?;
        bucket.is_of(print).then_some(bucket)
    }

    #[inline]
    fn look_in_second(&self, print: &Fingerprint, first: usize) -> (RowValue, BucketSlot) {
        let row = self.second_row(print.low, first);
        match self.rows[row].find(print) {
            Some((slot, bucket)) => (bucket.value(), BucketSlot { row, slot }),
            None => (RowValue::FULL, BucketSlot::NONE),
        }
    }

    /// Stores the value of a bucket that was found at `place`. A bucket that is full again has [`RowValue::FULL`], which is not
    /// stored.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        place: BucketSlot,
        print: &Fingerprint,
        value: RowValue,
        now: Timestamp,
    ) {
        match value == RowValue::FULL {
            true => self.forget(print),
            false => self.charge(place, print, value, now),
        }
    }

    /// Stores the value of a bucket that was found at `place` and is not full after a charge.
    #[inline(always)]
    pub(super) fn charge(
        &mut self,
        place: BucketSlot,
        print: &Fingerprint,
        value: RowValue,
        now: Timestamp,
    ) {
        // The common case stays small enough to inline. The rare ones are in separate functions.
        match self.bucket_at(place, print) {
            Some(bucket) => bucket.set(value),
            None => self.charge_elsewhere(print, value, now),
        }
    }

    /// Stores the value of a bucket that is new, or that a change of another bucket has moved.
    #[inline(never)]
    fn charge_elsewhere(&mut self, print: &Fingerprint, value: RowValue, now: Timestamp) {
        match self.look(print) {
            (_, BucketSlot::NONE) => self.add(print, value, now),
            (_, place) => self.bucket_mut(place).set(value),
        }
    }

    /// Stores a bucket. If there is no room, a new one replaces another.
    #[cfg(test)]
    fn set(&mut self, print: &Fingerprint, value: RowValue, now: Timestamp) {
        let (_, place) = self.look(print);
        self.put(place, print, value.unless_full(now), now);
    }

    /// Stores a new bucket.
    #[inline(never)]
    fn add(&mut self, print: &Fingerprint, value: RowValue, now: Timestamp) {
        // Making room may move buckets, so the place is only known afterwards.
        let place = self.vacate(print.low, now);
        *self.bucket_mut(place) = RowBucket::new(print, value);
    }

    /// Forgets a bucket that is full again, after a refund or a reset. Its place is free immediately.
    #[inline(never)]
    fn forget(&mut self, print: &Fingerprint) {
        let (_, place) = self.look(print);
        if place != BucketSlot::NONE {
            *self.bucket_mut(place) = RowBucket::default();
            self.occupied -= 1;
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "each half picks one row")]
    #[inline]
    fn first_row(&self, low: u64) -> usize {
        pick(low as u32, self.rows.len())
    }

    /// Returns the second row of a fingerprint, which differs from the first.
    #[inline]
    fn second_row(&self, low: u64, first: usize) -> usize {
        // The second row is chosen among the rows other than the first. If the two could coincide, such a fingerprint
        // would have half the room.
        let second = pick((low >> 32) as u32, self.rows.len() - 1);
        second + usize::from(second >= first)
    }

    /// Returns the two rows that can hold a fingerprint.
    fn rows_of(&self, low: u64) -> [usize; 2] {
        let first = self.first_row(low);
        [first, self.second_row(low, first)]
    }

    /// Makes room for a new bucket and counts it. In order of preference, it takes a free place, the place of a bucket
    /// that is full again, a place in a larger table or, at the cap, the place of the bucket nearest to full.
    fn vacate(&mut self, low: u64, now: Timestamp) -> BucketSlot {
        loop {
            // A bucket that becomes full again is only noticed when it is read. At the cap, finding some of those is
            // better than evicting a client that has spent something.
            if self.occupied >= self.cap {
                self.sweep(now);
            }
            if !self.rows.is_empty() {
                let rows = self.rows_of(low);
                if let Some(place) = self.vacancy(rows, now) {
                    return place;
                }
                if self.occupied >= self.cap {
                    return self.evict(rows, now);
                }
                // Below nine tenths, two full rows are bad luck, and moving a bucket helps. Above that, moves rarely
                // succeed, and the table grows instead, unless it has its largest size.
                let largest = self.rows.len() >= self.max_rows();
                if (largest || !self.is_dense())
                    && let Some(place) = self.make_way(rows)
                {
                    self.occupied += 1;
                    return place;
                }
                if largest {
                    return self.evict(rows, now);
                }
            }
            self.grow(now);
        }
    }

    /// Returns whether more than nine tenths of the slots are occupied.
    fn is_dense(&self) -> bool {
        self.occupied * 10 > self.rows.len() * SLOTS * 9
    }

    /// Forgets full buckets in the next few rows, up to the first row that has any.
    fn sweep(&mut self, now: Timestamp) {
        let before = self.occupied;
        for _ in 0..SWEEP.min(self.rows.len()) {
            self.hand = (self.hand + 1) % self.rows.len();
            self.occupied -= self.rows[self.hand].forget_full(now);
            if self.occupied < before {
                return;
            }
        }
    }

    /// Returns a place in one of two rows that is free or whose bucket is full again.
    fn vacancy(&mut self, rows: [usize; 2], now: Timestamp) -> Option<BucketSlot> {
        if self.occupied < self.cap
            && let Some(place) = self.free(rows)
        {
            self.occupied += 1;
            return Some(place);
        }
        self.occupied_in(rows)
            .find(|(place, _)| self.bucket(*place).is_full(now))
            .map(|(place, _)| place)
    }

    /// Returns a free place in the first of two rows or, if that is full, in the second.
    fn free(&self, rows: [usize; 2]) -> Option<BucketSlot> {
        rows.into_iter().find_map(|row| {
            let slot = self.rows[row].free()?;
            Some(BucketSlot { row, slot })
        })
    }

    /// Frees a place in two full rows: moves one of their buckets to its other row, and returns the place that it
    /// leaves. If all those rows are full too, a bucket of one of them moves first.
    fn make_way(&mut self, rows: [usize; 2]) -> Option<BucketSlot> {
        // At most two moves. A longer chain would fill the table a little more, but slow down the slowest insertion.
        if let Some((place, free)) = self.way_out(rows) {
            self.copy(place, free);
            return Some(place);
        }
        // The farther bucket moves first, so that no bucket is overwritten before it has been copied.
        let (place, (next, free)) = self.occupied_in(rows).find_map(|(place, low)| {
            let row = self.other_row(low, place.row);
            Some((place, self.way_out([row])?))
        })?;
        self.copy(next, free);
        self.copy(place, next);
        Some(place)
    }

    /// Finds a bucket in some rows whose other row has a free place. Returns the bucket and that place.
    fn way_out(&self, rows: impl IntoIterator<Item = usize>) -> Option<(BucketSlot, BucketSlot)> {
        self.occupied_in(rows).find_map(|(place, low)| {
            let row = self.other_row(low, place.row);
            let slot = self.rows[row].free()?;
            Some((place, BucketSlot { row, slot }))
        })
    }

    fn copy(&mut self, from: BucketSlot, to: BucketSlot) {
        *self.bucket_mut(to) = *self.bucket(from);
    }

    fn other_row(&self, low: u64, row: usize) -> usize {
        let [first, second] = self.rows_of(low);
        if row == first { second } else { first }
    }

    /// Evicts the bucket nearest to full among a sample, and returns a place in one of two rows.
    fn evict(&mut self, rows: [usize; 2], now: Timestamp) -> BucketSlot {
        self.evictions += 1;
        let Some(free) = self.free(rows) else {
            return self.evict_beside(rows, now);
        };
        // The hash of the new id selects the rows at which the sample starts. The hash is keyed, so a client cannot
        // choose which buckets its ids evict.
        let following = (1..self.rows.len()).map(|i| (rows[1] + i) % self.rows.len());
        let sample = self.occupied_in(rows.into_iter().chain(following));
        let victim = sample
            .map(|(place, _)| place)
            .take(SAMPLE)
            .min_by_key(|place| self.bucket(*place).debt(now))
            .expect("a table at its cap holds a bucket");
        *self.bucket_mut(victim) = RowBucket::default();
        free
    }

    /// Evicts a bucket when both rows are full. The sample has the buckets of the two rows, and the buckets in places
    /// to which one of those can move.
    fn evict_beside(&mut self, rows: [usize; 2], now: Timestamp) -> BucketSlot {
        // A victim in another row makes room only if a bucket of these rows can move to its place. The sample then has
        // 16 buckets instead of the ten in these rows, at the price of one move.
        let ours = self.occupied_in(rows).map(|(place, _)| (place, place));
        let others = self.occupied_in(rows).flat_map(|(leaves, low)| {
            let row = self.other_row(low, leaves.row);
            self.occupied_in([row])
                .map(move |(victim, _)| (victim, leaves))
        });
        let (victim, leaves) = ours
            .chain(others)
            .take(SAMPLE)
            .min_by_key(|(victim, _)| self.bucket(*victim).debt(now))
            .expect("both rows are full");
        self.copy(leaves, victim);
        leaves
    }

    /// Returns the largest number of rows. It is high enough that both rows of a new bucket are hardly ever full below
    /// the cap.
    fn max_rows(&self) -> usize {
        (self.cap + self.cap / 9) / SLOTS + MIN_ROWS
    }

    #[inline]
    fn bucket(&self, place: BucketSlot) -> &RowBucket {
        &self.rows[place.row].0[place.slot]
    }

    #[inline]
    fn bucket_mut(&mut self, place: BucketSlot) -> &mut RowBucket {
        &mut self.rows[place.row].0[place.slot]
    }

    /// Returns the occupied places of some rows, each with the hash that chooses its bucket's rows.
    fn occupied_in(
        &self,
        rows: impl IntoIterator<Item = usize>,
    ) -> impl Iterator<Item = (BucketSlot, u64)> {
        rows.into_iter().flat_map(|row| {
            let slots = self.rows[row].0.iter().enumerate();
            slots.filter_map(move |(slot, bucket)| Some((BucketSlot { row, slot }, bucket.low()?)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::memory::random_numbers::print;
    use crate::gcra::{self, Tat, Ticks, row::Scale};

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);
    const SECOND: Scale = scale(1_000_000);

    const fn scale(us: u64) -> Scale {
        Scale::new(Ticks::from_micros(us))
    }

    /// The number of ids in a flood. Miri takes a thousand times as long for each.
    const FLOOD: u64 = if cfg!(miri) { 2_000 } else { 100_000 };

    fn tat(after_us: u64) -> Tat {
        Tat {
            us: NOW.as_micros() + after_us,
            frac: 0,
        }
    }

    fn put(table: &mut Table, n: u64, after_us: u64, scale: Scale) {
        table.set(&print(n), gcra::row::value(tat(after_us), scale), NOW);
    }

    fn stored(table: &Table, n: u64) -> Tat {
        gcra::row::tat(table.get(&print(n)))
    }

    fn held(table: &Table, range: std::ops::Range<u64>) -> usize {
        range
            .filter(|n| stored(table, *n) != Tat::default())
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
            assert_eq!(stored(&table, n), tat(1 + n), "bucket {n}");
        }
        let slots = table.rows.len() * SLOTS;
        assert!(slots <= 4096 * 10 / 9 + 2 * SLOTS, "{slots} slots");
        assert_eq!(table.evictions(), 0);
    }

    #[test]
    fn table_stays_four_fifths_full_while_it_grows() {
        let mut table = Table::new(1_000_000);
        for n in 0..FLOOD {
            put(&mut table, n, 1 + n, SECOND);
            let slots = table.rows.len() * SLOTS;
            assert!(
                slots * 4 <= 5 * table.occupied() + 10 * SLOTS,
                "{slots} for {n}"
            );
        }
        assert_eq!(held(&table, 0..FLOOD) as u64, FLOOD);
    }

    #[test]
    fn never_holds_more_than_the_cap() {
        for cap in [1, 2, 7, 16, 17, 100] {
            let mut table = Table::new(cap);
            for n in 0..1000 {
                put(&mut table, n, 500_000, SECOND);
                assert!(table.occupied() <= cap);
                assert_eq!(stored(&table, n), tat(500_000), "the newcomer {n} is in");
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
        for n in 10..FLOOD {
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
        let day = scale(86_400_000_000);
        for n in 0..10 {
            put(&mut table, n, 1_000_000, SECOND);
        }
        for n in 10..FLOOD {
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
            table.set(&print(n), gcra::row::value(tat, SECOND), later);
        }
        assert_eq!(table.rows.len(), rows);
        assert_eq!(held(&table, 10_000..15_000), 5_000);
    }

    #[test]
    fn full_table_keeps_the_throttled_among_a_flood_wherever_their_rows_are() {
        let mut table = Table::new(4096);
        for n in 0..400 {
            put(&mut table, n, 1_000_000, SECOND);
        }
        for n in 400..FLOOD / 3 {
            put(&mut table, n, 500_000 + n, SECOND);
            assert_eq!(
                stored(&table, n),
                tat(500_000 + n),
                "the newcomer {n} is in"
            );
        }
        assert_eq!(held(&table, 0..400), 400);
        assert_eq!(table.evictions(), FLOOD / 3 - table.occupied() as u64);
    }

    /// Ten buckets each of two fingerprints, which have different rows in a table of ten rows, and the same two rows in
    /// one of the largest size.
    #[test]
    fn table_whose_buckets_do_not_fit_into_its_largest_size_evicts_some() {
        const CAP: usize = 45;
        let rows_of = |rows: usize, low: u64| {
            let mut table = Table::new(CAP);
            table.rows.resize(rows, Row::default());
            let mut rows = table.rows_of(low);
            rows.sort_unstable();
            rows
        };
        let largest = Table::new(CAP).max_rows();
        assert_eq!(largest, 12, "the next size after 10");
        let first = print(0).low;
        let of_first = [rows_of(10, first), rows_of(largest, first)];
        let collides = |low: &u64| {
            let others = rows_of(10, *low);
            others.iter().all(|row| !of_first[0].contains(row))
                && rows_of(largest, *low) == of_first[1]
        };
        let second = (1..).map(|n| print(n).low).find(collides).unwrap();
        let mut table = Table::new(CAP);
        let mut put = |low: u64, high: u64| {
            let value = gcra::row::value(tat(1000 + high), SECOND);
            table.set(&Fingerprint { low, high }, value, NOW);
            assert!(table.rows.len() <= largest, "{} rows", table.rows.len());
            assert_eq!(
                gcra::row::tat(table.get(&Fingerprint { low, high })),
                tat(1000 + high)
            );
            (table.occupied(), table.evictions())
        };
        for high in 0..10 {
            put(first, high);
            assert_eq!(put(second, high).1, 0);
        }
        let (occupied, evictions) = put(first, 10);
        assert_eq!(
            (occupied, evictions),
            (10, 11),
            "two rows have room for ten"
        );
    }

    #[test]
    fn size_of_a_bucket_is_as_documented() {
        assert_eq!(size_of::<RowBucket>(), 24);
        assert_eq!((size_of::<Row>(), align_of::<Row>()), (128, 128));
    }

    #[test]
    fn bucket_that_is_made_full_is_forgotten() {
        let mut table = Table::new(16);
        let later = Timestamp::from_micros(NOW.as_micros() + 1);
        for n in [1, 2] {
            put(&mut table, n, 10 * (n % 2), SECOND);
            table.set(&print(n), gcra::row::value(tat(0), SECOND), later);
        }
        assert_eq!((table.occupied(), stored(&table, 1)), (0, Tat::default()));
        // The clock may step back before one that is full just now.
        put(&mut table, 1, 0, SECOND);
        assert_eq!((table.occupied(), stored(&table, 1)), (1, tat(0)));
    }
}
