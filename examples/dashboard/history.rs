//! The decisions of the last two minutes, second by second.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{self, MissedTickBehavior};

use super::counters::{Counters, Tally};

/// How many seconds are kept.
const SECONDS: usize = 120;

/// What was counted at the end of each second. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(Arc<Mutex<VecDeque<HashMap<String, Tally>>>>);

impl History {
    /// Reads the counters every second, for as long as the process runs.
    pub(crate) async fn follow(self, counters: Counters) -> Infallible {
        let mut seconds = time::interval(Duration::from_secs(1));
        // A late reading covers more than a second, and the next one less than none.
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            seconds.tick().await;
            self.add(counters.tallies());
        }
    }

    fn add(&self, tallies: HashMap<String, Tally>) {
        let mut readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        readings.push_back(tallies);
        // One more than there are seconds between them.
        if readings.len() > SECONDS + 1 {
            readings.pop_front();
        }
    }

    /// How many requests a limit has allowed and denied in each second, oldest first.
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
