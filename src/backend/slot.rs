//! A bound on the number of decisions that wait.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::per_thread::PerThread;

/// A number of places for waiting decisions, in parts. A thread takes places from the part that it prefers and, if
/// that is full, from the others.
#[derive(Debug)]
pub(super) struct Slots(PerThread<SlotPart>);

/// Some of the places.
#[derive(Debug)]
struct SlotPart {
    taken: AtomicUsize,
    most: usize,
}

/// A place among the waiting decisions, which is free again when this value is dropped.
#[derive(Debug)]
pub(super) struct Slot<'a>(&'a AtomicUsize);

impl Slots {
    const MOST_PARTS: usize = 16;

    /// The fewest places in a part, unless there is only one part.
    const LEAST: usize = 64;

    /// Creates `most` places.
    pub(super) fn new(most: usize) -> Self {
        let parts = (most / Self::LEAST).clamp(1, Self::MOST_PARTS);
        Self(PerThread::new(parts, |part| SlotPart {
            taken: AtomicUsize::new(0),
            most: most / parts + usize::from(part < most % parts),
        }))
    }

    /// Takes a place, if one is free.
    #[inline]
    pub(super) fn take(&self) -> Option<Slot<'_>> {
        self.0.own().take().or_else(|| self.take_any())
    }

    #[cold]
    fn take_any(&self) -> Option<Slot<'_>> {
        self.0.iter().find_map(SlotPart::take)
    }

    /// Returns whether no place is free.
    pub(super) fn are_taken(&self) -> bool {
        let mut parts = self.0.iter();
        parts.all(|part| part.taken.load(Ordering::Relaxed) >= part.most)
    }
}

impl SlotPart {
    #[inline]
    fn take(&self) -> Option<Slot<'_>> {
        let slot = Slot(&self.taken);
        (self.taken.fetch_add(1, Ordering::Relaxed) < self.most).then_some(slot)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{iter, thread};

    use super::*;

    #[test]
    fn one_thread_can_take_all_places_and_no_more() {
        for most in [0, 1, 63, 64, 130, 4096, 4099] {
            let slots = Slots::new(most);
            for _ in 0..2 {
                let taken: Vec<_> = iter::from_fn(|| slots.take()).collect();
                assert_eq!(taken.len(), most);
                assert!(slots.are_taken());
            }
            assert_eq!(slots.are_taken(), most == 0, "{most}");
        }
    }

    #[test]
    fn threads_never_take_more_than_all_places() {
        let (slots, taken) = (Slots::new(200), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let held: Vec<_> = (0..150).map_while(|_| slots.take()).collect();
                        let held_by_all = taken.fetch_add(held.len(), Ordering::SeqCst);
                        assert!(held_by_all + held.len() <= 200);
                        taken.fetch_sub(held.len(), Ordering::SeqCst);
                        drop(held);
                    }
                });
            }
        });
        assert!(!slots.are_taken());
    }
}
