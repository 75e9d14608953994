//! A priority queue over the entries of a map that removes by swapping with the last one.

use super::blocks::Blocks;

/// A binary heap of the entries `0..len`, each with a key. The least key comes first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: Blocks<(u64, u32), 64>,
    /// The place of each entry in the heap.
    places: Blocks<u32, 128>,
}

/// The memory of an entry.
pub(super) const QUEUED_BYTES: usize = size_of::<(u64, u32)>() + size_of::<u32>();

impl Queue {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns the entry with the least key.
    pub(super) fn first(&self) -> Option<(u64, usize)> {
        let (key, entry) = self.heap.get(0)?;
        Some((*key, *entry as usize))
    }

    pub(super) fn key(&self, entry: usize) -> u64 {
        self.heap[self.place(entry)].0
    }

    /// Adds the next entry.
    pub(super) fn push(&mut self, key: u64) {
        let place = self.heap.len();
        self.heap.push((key, narrow(place)));
        self.places.push(narrow(place));
        self.raise(place);
    }

    pub(super) fn set(&mut self, entry: usize, key: u64) {
        let place = self.place(entry);
        self.heap[place].0 = key;
        self.raise(place);
        self.sink(place);
    }

    /// Removes an entry. The last one takes its number.
    pub(super) fn swap_remove(&mut self, entry: usize) {
        let place = self.place(entry);
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            let moved = self.heap[place].1 as usize;
            self.places[moved] = narrow(place);
            self.raise(place);
            self.sink(place);
        }
        self.places.swap_remove(entry);
        if entry < self.places.len() {
            let place = self.place(entry);
            self.heap[place].1 = narrow(entry);
        }
    }

    fn place(&self, entry: usize) -> usize {
        self.places[entry] as usize
    }

    /// Moves the entry at a place towards the front.
    fn raise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].0 <= self.heap[place].0 {
                return;
            }
            self.swap(place, parent);
            place = parent;
        }
    }

    /// Moves the entry at a place towards the end.
    fn sink(&mut self, mut place: usize) {
        loop {
            let children = 2 * place + 1..(2 * place + 3).min(self.heap.len());
            let Some(least) = children.min_by_key(|child| self.heap[*child].0) else {
                return;
            };
            if self.heap[place].0 <= self.heap[least].0 {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        let (first, second) = (self.heap[a], self.heap[b]);
        (self.heap[a], self.heap[b]) = (second, first);
        self.places[second.1 as usize] = narrow(a);
        self.places[first.1 as usize] = narrow(b);
    }
}

/// A shard has fewer than 2³² histories: each takes more than a hundred bytes.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the budget of bytes bounds it"
)]
pub(super) fn narrow(n: usize) -> u32 {
    n as u32
}
