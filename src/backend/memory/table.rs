//! A bounded hash table of TATs, in which a bucket that is full again *is* a free place.
//!
//! Each fingerprint belongs to two rows of eight slots. It is looked for in both, and a new one goes
//! to the emptier. That keeps every operation to at most sixteen slots, needs no tombstones, lets
//! the table fill to about nine tenths before it grows, and makes those sixteen slots a random
//! sample of the table when a bucket has to go.

use std::fmt;

use super::fingerprint::{Fingerprint, pick};
use crate::{
    clock::Timestamp,
    gcra::{Tat, Ticks},
};

const SLOTS: usize = 8;
const MIN_ROWS: usize = 2;
/// How many buckets are compared before one is evicted.
const SAMPLE: usize = 16;

pub(super) struct Table {
    rows: Vec<Row>,
    occupied: usize,
    cap: usize,
}

/// Three cache lines.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Row([Slot; SLOTS]);

/// One bucket: 96 bits of fingerprint, its TAT, and about how long its limit's tolerance is.
#[derive(Clone, Copy, Default)]
struct Slot {
    low: u64,
    /// The TAT's microseconds in the lower 53 bits, a [`Scale`] above them. Zero: no bucket.
    tat: u64,
    high: u32,
    frac: u32,
}

/// Where a slot is.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    slot: usize,
}

impl Table {
    pub(super) fn new(cap: usize) -> Self {
        Self {
            rows: Vec::new(),
            occupied: 0,
            cap,
        }
    }

    pub(super) fn occupied(&self) -> usize {
        self.occupied
    }

    /// The TAT of a bucket, 0 if there is none.
    #[inline]
    pub(super) fn get(&self, print: &Fingerprint) -> Tat {
        self.find(print)
            .map_or(Tat::default(), |place| self.slot(place).tat())
    }

    /// Stores the TAT of a bucket. Takes the place of another one if it must.
    pub(super) fn set(&mut self, print: &Fingerprint, tat: Tat, tolerance: Ticks, now: Timestamp) {
        let full = tat <= Tat::from_micros(now.as_micros());
        let place = match self.find(print) {
            Some(place) => place,
            None if full => return,
            None => self.vacate(print, now),
        };
        if full {
            self.clear(place);
        } else {
            *self.slot_mut(place) = Slot::new(print, tat, tolerance);
        }
    }

    #[inline]
    fn find(&self, print: &Fingerprint) -> Option<Place> {
        if self.rows.is_empty() {
            return None;
        }
        self.rows_of(print.low).into_iter().find_map(|row| {
            let slot = self.rows[row].0.iter().position(|slot| slot.is(print))?;
            Some(Place { row, slot })
        })
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
            if !self.rows.is_empty() {
                let rows = self.rows_of(print.low);
                if let Some(place) = self.vacancy(rows, now) {
                    return place;
                }
                if self.occupied >= self.cap || self.rows.len() >= self.max_rows() {
                    return self.evict(rows, now);
                }
            }
            self.grow(now);
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
        places(rows).find(|place| self.slot(*place).is_full(now))
    }

    /// A free place in the emptier of two rows.
    fn free(&self, rows: [usize; 2]) -> Option<Place> {
        let free = |row: usize| {
            self.rows[row]
                .0
                .iter()
                .filter(|slot| slot.is_free())
                .count()
        };
        let row = if free(rows[1]) > free(rows[0]) {
            rows[1]
        } else {
            rows[0]
        };
        let slot = self.rows[row].0.iter().position(Slot::is_free)?;
        Some(Place { row, slot })
    }

    /// Evicts the bucket nearest to full of a sample and returns a place in one of two rows.
    fn evict(&mut self, rows: [usize; 2], now: Timestamp) -> Place {
        let following = (1..self.rows.len()).map(|i| (rows[1] + i) % self.rows.len());
        let sample = places(rows.into_iter().chain(following));
        let nearest = sample
            .filter(|place| !self.slot(*place).is_free())
            .take(SAMPLE)
            .min_by_key(|place| self.slot(*place).debt(now))
            .expect("a table at its cap holds a bucket");
        let Some(free) = self.free(rows) else {
            return nearest;
        };
        *self.slot_mut(nearest) = Slot::default();
        free
    }

    /// Moves what is not full yet to a table a quarter larger.
    fn grow(&mut self, now: Timestamp) {
        let mut target = (self.rows.len() * 5 / 4 + 1).clamp(MIN_ROWS, self.max_rows());
        while !self.move_to(target, now) {
            target += target / 4 + 1;
        }
    }

    fn move_to(&mut self, rows: usize, now: Timestamp) -> bool {
        let mut table = Self {
            rows: vec![Row::default(); rows],
            occupied: 0,
            cap: self.cap,
        };
        for slot in self
            .rows
            .iter()
            .flat_map(|row| &row.0)
            .filter(|slot| !slot.is_full(now))
        {
            let Some(place) = table.free(table.rows_of(slot.low)) else {
                return false;
            };
            *table.slot_mut(place) = *slot;
            table.occupied += 1;
        }
        *self = table;
        true
    }

    /// Enough rows that two of them are hardly ever full before the cap is reached.
    fn max_rows(&self) -> usize {
        (self.cap + self.cap / 3) / SLOTS + MIN_ROWS
    }

    fn clear(&mut self, place: Place) {
        *self.slot_mut(place) = Slot::default();
        self.occupied -= 1;
    }

    fn slot(&self, place: Place) -> &Slot {
        &self.rows[place.row].0[place.slot]
    }

    fn slot_mut(&mut self, place: Place) -> &mut Slot {
        &mut self.rows[place.row].0[place.slot]
    }
}

fn places(rows: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Place> {
    rows.into_iter()
        .flat_map(|row| (0..SLOTS).map(move |slot| Place { row, slot }))
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("occupied", &self.occupied)
            .field("cap", &self.cap)
            .finish_non_exhaustive()
    }
}

impl Slot {
    const TAT_BITS: u32 = 53;

    fn new(print: &Fingerprint, tat: Tat, tolerance: Ticks) -> Self {
        let scale = Scale::new(tolerance);
        Self {
            low: print.low,
            tat: u64::from(scale.0) << Self::TAT_BITS | tat.us,
            high: half(print),
            frac: tat.frac,
        }
    }

    #[inline]
    fn is(&self, print: &Fingerprint) -> bool {
        self.low == print.low && self.high == half(print) && !self.is_free()
    }

    fn is_free(&self) -> bool {
        self.tat == 0
    }

    #[inline]
    fn tat(&self) -> Tat {
        Tat {
            us: self.tat & ((1 << Self::TAT_BITS) - 1),
            frac: self.frac,
        }
    }

    /// Whether nothing is lost if the slot is reused: an empty one, or a bucket that is full.
    fn is_full(&self, now: Timestamp) -> bool {
        self.tat() <= Tat::from_micros(now.as_micros())
    }

    /// How far the bucket is from full, in parts of its tolerance: 0 is full, 2¹¹ empty.
    fn debt(&self, now: Timestamp) -> u64 {
        let us = self.tat().us.saturating_sub(now.as_micros());
        (us << 11) / self.scale().micros()
    }

    fn scale(&self) -> Scale {
        Scale(u16::try_from(self.tat >> Self::TAT_BITS).expect("11 bits are left"))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn half(print: &Fingerprint) -> u32 {
    print.high as u32
}

/// A tolerance in eleven bits, exact to one part in 32: the power of two plus one, then five bits
/// below the leading one. Never zero.
struct Scale(u16);

impl Scale {
    const MANTISSA_BITS: u32 = 5;

    fn new(tolerance: Ticks) -> Self {
        let us = tolerance.us.max(1);
        let power = us.ilog2();
        let mantissa = (us << Self::MANTISSA_BITS >> power) & 31;
        let bits = u64::from(power + 1) << Self::MANTISSA_BITS | mantissa;
        Self(u16::try_from(bits).expect("a tolerance is at most 2^51"))
    }

    /// At least 1.
    fn micros(&self) -> u64 {
        let power = (self.0 >> Self::MANTISSA_BITS).saturating_sub(1);
        (32 + u64::from(self.0 & 31)) << power >> Self::MANTISSA_BITS
    }
}
