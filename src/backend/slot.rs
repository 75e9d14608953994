//! A bound on the number of decisions that wait.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A place among the waiting decisions, which is free again when this value is dropped.
#[derive(Debug)]
pub(super) struct Slot<'a>(&'a AtomicUsize);

impl<'a> Slot<'a> {
    /// Takes one of `most` places, if one is free. The number counts the places that are taken.
    pub(super) fn take(taken: &'a AtomicUsize, most: usize) -> Option<Self> {
        let slot = Self(taken);
        (taken.fetch_add(1, Ordering::Relaxed) < most).then_some(slot)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
