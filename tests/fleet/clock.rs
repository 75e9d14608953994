//! A clock that can be set.

use std::{sync::Mutex, time::Duration};

use tokio::time::Instant;

/// One second. All times are milliseconds since the simulation began, because tokio's timers are no more precise.
pub(crate) const SECOND: u64 = 1_000;

/// The time at which each simulation begins, in milliseconds since the Unix epoch.
const EPOCH: u64 = 1_767_225_600_000;

/// A clock that follows tokio's, and can be set.
#[derive(Debug)]
pub(crate) struct SimulatedClock {
    begun: Instant,
    /// The times at which the clock was set, each with how far it is ahead since then.
    steps: Mutex<Vec<(u64, i64)>>,
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
        u64::try_from(self.begun.elapsed().as_millis()).unwrap()
    }

    /// The instant at a time of the simulation.
    pub(crate) fn instant(&self, at: u64) -> Instant {
        self.begun + Duration::from_millis(at)
    }

    /// The clock's time, in microseconds since the Unix epoch.
    pub(crate) fn now(&self) -> u64 {
        let ahead = self.steps.lock().unwrap().last().unwrap().1;
        (EPOCH + self.world()).saturating_add_signed(ahead) * 1_000
    }

    pub(crate) fn step(&self, by: i64) {
        let now = self.world();
        let mut steps = self.steps.lock().unwrap();
        let ahead = steps.last().unwrap().1;
        steps.push((now, ahead + by));
    }

    /// Whether the clock was set between two times.
    pub(crate) fn was_set(&self, from: u64, until: u64) -> bool {
        let steps = self.steps.lock().unwrap();
        steps[1..].iter().any(|(at, _)| (from..=until).contains(at))
    }

    /// How far apart the least and the most are that the clock has shown between two times.
    pub(crate) fn passed(&self, from: u64, until: u64) -> u64 {
        let steps = self.steps.lock().unwrap();
        let mut shown = Vec::new();
        for (index, (at, ahead)) in steps.iter().enumerate() {
            let end = steps.get(index + 1).map_or(u64::MAX, |(next, _)| *next);
            if *at <= until && end >= from {
                let times = [from.max(*at), until.min(end)];
                shown.extend(times.map(|at| (EPOCH + at).saturating_add_signed(*ahead)));
            }
        }
        shown.iter().max().unwrap() - shown.iter().min().unwrap()
    }
}
