//! Values that threads do not have to share.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Values on separate cache lines. Each thread prefers one of them, because threads that write the same line wait for
/// each other. Several threads can prefer the same value.
#[derive(Debug)]
pub(super) struct PerThread<T>(Box<[CacheLine<T>]>);

#[derive(Debug)]
#[repr(align(128))]
struct CacheLine<T>(T);

impl<T> PerThread<T> {
    /// Creates the values from their numbers. There is at least one.
    pub(super) fn new(values: usize, new: impl Fn(usize) -> T) -> Self {
        let lines = (0..values.max(1)).map(|number| CacheLine(new(number)));
        Self(lines.collect())
    }

    /// Returns the value that this thread prefers.
    #[inline]
    pub(super) fn own(&self) -> &T {
        let CacheLine(own) = &self.0[thread_number() % self.0.len()];
        own
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|CacheLine(value)| value)
    }
}

#[inline]
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    OWN.with(|own| *own)
}
