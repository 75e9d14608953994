//! The decisions of the last two minutes, second by second.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{self, MissedTickBehavior};

use super::counters::{Counters, Tally};

/// The number of seconds to keep.
const SECONDS: usize = 120;

/// The counters at the end of each second. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(Arc<Mutex<VecDeque<HashMap<String, Tally>>>>);

impl History {
    /// Reads the counters every second, for as long as the process runs.
    pub(crate) async fn follow(self, counters: Counters) -> Infallible {
        let mut seconds = time::interval(Duration::from_secs(1));
        // If a reading is late, it covers more than a second, and the next one covers less.
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            seconds.tick().await;
            self.add(counters.tallies());
        }
    }

    fn add(&self, tallies: HashMap<String, Tally>) {
        let mut readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        readings.push_back(tallies);
        // For the differences of this many seconds, one more reading is needed.
        if readings.len() > SECONDS + 1 {
            readings.pop_front();
        }
    }

    /// Returns the numbers of requests that a limit has allowed and denied in each second, oldest first.
    pub(crate) fn of(&self, limit: &str) -> Vec<[u64; 2]> {
        let readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = readings.iter().map(|reading| {
            let tally = reading.get(limit).copied().unwrap_or_default();
            [tally.allowed, tally.denied]
        });
        let totals: Vec<_> = totals.collect();
        totals
            .windows(2)
            .map(|pair| [pair[1][0] - pair[0][0], pair[1][1] - pair[0][1]])
            .collect()
    }
}
