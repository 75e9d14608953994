use std::{collections::VecDeque, iter, ops::Range};

use serde::{Deserialize, Serialize};

/// The instants at which the units of a bucket were taken, in microseconds since the Unix epoch, in ascending order. The
/// default is an unused bucket.
/// The [backend docs](crate::backend#a-custom-backend) have an example.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Units(VecDeque<u64>);

impl Units {
    /// Returns the instants, in ascending order.
    #[must_use]
    pub fn instants(&self) -> impl ExactSizeIterator<Item = u64> + DoubleEndedIterator {
        self.0.iter().copied()
    }

    /// Returns the memory that the units take beyond their own size, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }

    /// Returns the places of the units that count, each for the length of a window.
    pub(in crate::algorithm) fn live(&self, window: u64, now: u64) -> Range<usize> {
        let has_expired = |taken: &u64| taken.saturating_add(window) <= now;
        let expired = match self.0.front() {
            Some(oldest) if has_expired(oldest) => self.0.partition_point(has_expired),
            _ => 0,
        };
        expired..self.0.len()
    }

    pub(in crate::algorithm) fn get(&self, place: usize) -> Option<u64> {
        self.0.get(place).copied()
    }

    pub(in crate::algorithm) fn newest(&self) -> Option<u64> {
        self.0.back().copied()
    }

    /// Returns the places of the units that were taken at an instant.
    pub(super) fn at(&self, instant: u64) -> Range<usize> {
        self.0.partition_point(|taken| *taken < instant)..self.until(instant)
    }

    /// Returns the number of units that were taken at or before an instant.
    fn until(&self, instant: u64) -> usize {
        match self.0.back() {
            Some(newest) if *newest > instant => self.0.partition_point(|taken| *taken <= instant),
            _ => self.0.len(),
        }
    }

    pub(in crate::algorithm) fn remove(&mut self, places: Range<usize>) {
        self.0.drain(places);
    }

    /// Adds units behind those of the same instant. Later ones are there if the clock has stepped back.
    pub(in crate::algorithm) fn insert(&mut self, instant: u64, units: u32, usual: u32) {
        let (place, units) = (self.until(instant), units as usize);
        let wanted = self.0.len() + units;
        if wanted > self.0.capacity() {
            let room = (2 * wanted).min(wanted.max(usual as usize));
            self.0.reserve_exact(room - self.0.len());
        }
        let later = self.0.len() - place;
        self.0.extend(iter::repeat_n(instant, units));
        if later > 0 {
            self.0.make_contiguous()[place..].rotate_left(later);
        }
    }
}
