//! The clients that need most.

use std::{cmp::Reverse, collections::BinaryHeap};

/// A number of clients with the largest needs.
#[derive(Debug)]
pub(super) struct Tops {
    kept: usize,
    heap: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Tops {
    pub(super) fn new(kept: usize) -> Self {
        let heap = BinaryHeap::new();
        Self { kept, heap }
    }

    pub(super) fn add(&mut self, need: u64, client: u64) {
        if self.heap.len() < self.kept {
            self.heap.push(Reverse((need, client)));
        } else if let Some(mut least) = self.heap.peek_mut()
            && least.0.0 < need
        {
            *least = Reverse((need, client));
        }
    }

    /// The needs and their clients, the largest first.
    pub(super) fn sorted(self) -> Vec<(u64, u64)> {
        let sorted = self.heap.into_sorted_vec();
        sorted.into_iter().map(|Reverse(top)| top).collect()
    }
}
