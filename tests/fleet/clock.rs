//! The clocks of a fleet, and a record of their readings.

use std::sync::Mutex;

use tokio::time::Instant;

use crate::terms::SECOND;

/// The time at which each simulation begins, in microseconds since the Unix epoch: some seconds before a full hour.
const EPOCH: u64 = 1_767_225_600 * SECOND - 3 * SECOND;

/// A clock that follows tokio's, and can be set. Times of the simulation are microseconds since its begin.
#[derive(Debug)]
pub(crate) struct SimulatedClock {
    begun: Instant,
    /// The instants at which the clock was set, each with how far it is ahead since then.
    steps: Mutex<Vec<(u64, i64)>>,
}

/// The least and the most that a clock shows between two instants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// The time that has passed by the clock, without its steps back, and the number of these.
    pub(crate) passed: u64,
    pub(crate) steps_back: u64,
    /// The time that has passed since the first use of a bucket.
    pub(crate) passed_since_first: u64,
    /// The number of times that a period from first use can have restarted since then, because the bucket was lost or the clock was
    /// set back.
    pub(crate) fresh_starts: u64,
}

impl SimulatedClock {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            steps: Mutex::new(vec![(0, 0)]),
        }
    }

    /// The time of the simulation.
    pub(crate) fn world(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap()
    }

    /// The instant at a time of the simulation.
    pub(crate) fn instant(&self, at: u64) -> Instant {
        self.begun + std::time::Duration::from_micros(at)
    }

    pub(crate) fn now(&self) -> u64 {
        let ahead = self.steps.lock().unwrap().last().unwrap().1;
        (EPOCH + self.world()).saturating_add_signed(ahead)
    }

    pub(crate) fn step(&self, by: i64) {
        let now = self.world();
        let mut steps = self.steps.lock().unwrap();
        let ahead = steps.last().unwrap().1;
        steps.push((now, ahead + by));
    }

    /// Whether the clock was set between two instants.
    pub(crate) fn was_set(&self, from: u64, until: u64) -> bool {
        let steps = self.steps.lock().unwrap();
        steps[1..].iter().any(|(at, _)| (from..=until).contains(at))
    }

    pub(crate) fn span(&self, first: u64, (from, until): (u64, u64), fresh_starts: u64) -> Span {
        // A period from first use ends at most its length after the clock's time, so it is cut off where the clock steps back.
        let (passed, steps_back) = self.passed(from, until);
        let (passed_since_first, steps_since_first) = self.passed(first, until);
        let (from, until) = self.shown(from, until);
        Span {
            from,
            until,
            passed,
            steps_back,
            passed_since_first,
            fresh_starts: fresh_starts + steps_since_first,
        }
    }

    /// The time that has passed by the clock between two instants, and how often it was set back.
    fn passed(&self, from: u64, until: u64) -> (u64, u64) {
        let steps = self.steps.lock().unwrap();
        let mut passed = until - from;
        let mut steps_back = 0;
        for step in steps.windows(2) {
            if (from..=until).contains(&step[1].0) {
                let by = step[1].1 - step[0].1;
                passed += u64::try_from(by).unwrap_or(0);
                steps_back += u64::from(by < 0);
            }
        }
        (passed, steps_back)
    }

    /// The least and the most that the clock has shown between two instants.
    fn shown(&self, from: u64, until: u64) -> (u64, u64) {
        let shows = |at: u64, ahead: i64| (EPOCH + at).saturating_add_signed(ahead);
        let steps = self.steps.lock().unwrap();
        let mut shown = Vec::new();
        for (place, (at, ahead)) in steps.iter().enumerate() {
            let end = steps.get(place + 1).map_or(u64::MAX, |(next, _)| *next);
            if *at <= until && end >= from {
                shown.extend([(*at).max(from), end.min(until)].map(|at| shows(at, *ahead)));
            }
        }
        (*shown.iter().min().unwrap(), *shown.iter().max().unwrap())
    }
}
