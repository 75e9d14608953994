//! A machine whose clocks a test decides.

use std::{
    cell::Cell,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
};

use super::{Clocks, MILLISECOND};

/// A machine: a monotonic clock that is right, and a counter that drifts. Each reading of a clock takes a while.
#[derive(Default)]
pub(super) struct Machine {
    /// Nanoseconds since it was made.
    now: AtomicU64,
    /// The difference between the counter and the ticks that it has counted.
    offset: AtomicI64,
    reading: u64,
    drift_ppm: i64,
    /// The number of readings after which the thread is interrupted once.
    interrupted: Option<u64>,
    readings: AtomicU64,
}

impl Machine {
    pub(super) fn drifting(drift_ppm: i64) -> Self {
        Self {
            drift_ppm,
            reading: 25,
            ..Self::default()
        }
    }

    /// Sets the nanoseconds that a reading takes.
    pub(super) fn reading(self, reading: u64) -> Self {
        Self { reading, ..self }
    }

    /// Interrupts one of `every` readings.
    pub(super) fn interrupted(self, every: u64) -> Self {
        let interrupted = Some(every);
        Self {
            interrupted,
            ..self
        }
    }

    pub(super) fn pass(&self, nanoseconds: u64) {
        self.now.fetch_add(nanoseconds, Ordering::SeqCst);
    }

    pub(super) fn leap(&self, ticks: i64) {
        self.offset.fetch_add(ticks, Ordering::SeqCst);
    }

    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn read(&self) -> u64 {
        Stop::pass_reading();
        let readings = self.readings.fetch_add(1, Ordering::SeqCst);
        let is_interrupted = self
            .interrupted
            .is_some_and(|every| readings.is_multiple_of(every));
        let wait = if is_interrupted { 8 * MILLISECOND } else { 0 };
        let took = self.reading + wait;
        self.now.fetch_add(took, Ordering::SeqCst) + took
    }
}

/// A stop of this thread before one of its next readings, in which other threads go on.
pub(super) struct Stop {
    /// The number of readings before it.
    readings: u64,
    others: Box<dyn FnOnce()>,
}

impl Stop {
    thread_local!(static NEXT: Cell<Option<Stop>> = const { Cell::new(None) });

    /// Makes a call that is stopped before its `nth` reading of a clock, and runs `others` meanwhile. Returns `None` if
    /// the call has fewer readings.
    pub(super) fn during<T>(
        nth: u64,
        others: impl FnOnce() + 'static,
        call: impl FnOnce() -> T,
    ) -> Option<T> {
        let (readings, others) = (nth, Box::new(others));
        Self::NEXT.set(Some(Self { readings, others }));
        let returned = call();
        Self::NEXT.take().is_none().then_some(returned)
    }

    fn pass_reading() {
        match Self::NEXT.take() {
            Some(stop) if stop.readings == 0 => (stop.others)(),
            Some(stop) => Self::NEXT.set(Some(Self {
                readings: stop.readings - 1,
                ..stop
            })),
            None => {}
        }
    }
}

/// Three ticks in a nanosecond, about.
impl Clocks for Machine {
    fn nominal(&self) -> u64 {
        (1 << 32) / 3
    }

    fn counter(&self) -> u64 {
        let now = i128::from(self.read());
        let counted = 3 * (now + now * i128::from(self.drift_ppm) / 1_000_000);
        let offset = self.offset.load(Ordering::SeqCst);
        u64::try_from(counted + i128::from(offset)).unwrap()
    }

    fn monotonic(&self) -> u64 {
        self.read()
    }
}
