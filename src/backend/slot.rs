//! A bound on the number of decisions that wait.

use std::{
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use tokio::{sync::Notify, time};

use super::per_thread::PerThread;

/// A number of places for waiting decisions, in parts. A thread takes places from the part that it prefers and, if
/// that is full, from the others.
#[derive(Debug)]
pub(super) struct Slots {
    parts: PerThread<SlotPart>,
    most: usize,
    /// The number of callers that wait for a place.
    queued: AtomicUsize,
    freed: Notify,
}

/// Some of the places.
#[derive(Debug)]
struct SlotPart {
    taken: AtomicUsize,
    most: usize,
}

/// A place among the waiting decisions, which is free again when this value is dropped.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    taken: &'a AtomicUsize,
    slots: &'a Slots,
}

impl Slots {
    const MOST_PARTS: usize = 16;

    /// The fewest places in a part, unless there is only one part.
    const LEAST: usize = 64;

    /// The most callers that wait for each place.
    const MOST_QUEUED: usize = 4;

    /// Creates `most` places.
    pub(super) fn new(most: usize) -> Self {
        let parts = (most / Self::LEAST).clamp(1, Self::MOST_PARTS);
        let part = |part| SlotPart {
            taken: AtomicUsize::new(0),
            most: most / parts + usize::from(part < most % parts),
        };
        Self {
            parts: PerThread::new(parts, part),
            most,
            queued: AtomicUsize::new(0),
            freed: Notify::new(),
        }
    }

    /// Returns whether there are no places at all.
    pub(super) fn are_none(&self) -> bool {
        self.most == 0
    }

    /// Takes a place, if one is free and nobody waits for one.
    #[inline]
    pub(super) fn take(&self) -> Option<Slot<'_>> {
        match self.queued.load(Ordering::SeqCst) {
            0 => self.take_any(),
            _ => None,
        }
    }

    /// Takes a place as soon as one is free, in order of arrival. Returns `None` if that takes too long, and at once if too
    /// many callers wait already.
    pub(super) async fn wait(&self, most: Duration) -> Option<Slot<'_>> {
        let most_queued = self.most.saturating_mul(Self::MOST_QUEUED);
        let _queued = Queued::enter(&self.queued, most_queued)?;
        let taken = time::timeout(most, async {
            loop {
                let mut freed = pin!(self.freed.notified());
                freed.as_mut().enable();
                if let Some(slot) = self.take_any() {
                    return slot;
                }
                freed.await;
            }
        });
        let slot = taken.await.ok()?;
        // Two places that were freed at once can have woken only one caller.
        if !self.are_taken() {
            self.freed.notify_one();
        }
        Some(slot)
    }

    #[inline]
    fn take_any(&self) -> Option<Slot<'_>> {
        let taken = self.parts.own().take().or_else(|| self.take_elsewhere());
        taken.map(|taken| Slot { taken, slots: self })
    }

    #[cold]
    fn take_elsewhere(&self) -> Option<&AtomicUsize> {
        self.parts.iter().find_map(SlotPart::take)
    }

    /// Returns whether no place is free.
    pub(super) fn are_taken(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.all(|part| part.taken.load(Ordering::SeqCst) >= part.most)
    }
}

impl SlotPart {
    #[inline]
    fn take(&self) -> Option<&AtomicUsize> {
        if self.taken.fetch_add(1, Ordering::SeqCst) < self.most {
            return Some(&self.taken);
        }
        self.taken.fetch_sub(1, Ordering::SeqCst);
        None
    }
}

impl Drop for Slot<'_> {
    #[inline]
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
        // A caller that waits counts itself before it looks for a place, so it sees this one, or is seen here.
        if self.slots.queued.load(Ordering::SeqCst) > 0 {
            self.slots.freed.notify_one();
        }
    }
}

/// A caller that waits for a place.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    /// Returns `None` if `most` callers wait already.
    fn enter(queued: &'a AtomicUsize, most: usize) -> Option<Self> {
        let entered = Self(queued);
        (queued.fetch_add(1, Ordering::SeqCst) < most).then_some(entered)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
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

    #[tokio::test(start_paused = true)]
    async fn place_goes_to_the_caller_that_waits_longest() {
        let (slots, second) = (Slots::new(2), Duration::from_secs(1));
        let (one, two) = (slots.take().unwrap(), slots.take().unwrap());
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(slots.wait(second))).collect();
        for wait in &mut waiting {
            assert!(futures_util::poll!(wait).is_pending());
        }
        drop((one, two));
        assert!(slots.take().is_none(), "others were first");
        let last = waiting.pop().unwrap();
        let got = futures_util::future::join_all(waiting).await;
        assert!(got.iter().all(Option::is_some));
        assert!(last.await.is_none(), "it waits for a second at most");
        drop(got);
        assert!(slots.take().is_some());
    }
}
