//! The backend that the documentation of `tollgate::backend` shows: a map that forgets nothing.

use std::{collections::HashMap, sync::Mutex};

use tollgate::{
    Limits,
    backend::{Backend, BackendError, async_trait},
    clock::{Clock, SystemClock, Timestamp},
    decision::{Outcome, Stored},
    transaction::Batch,
};

use super::tiers_history::tiers_of;

#[derive(Debug, Default)]
pub(crate) struct MapBackend {
    buckets: Mutex<HashMap<String, Stored>>,
    clock: SystemClock,
}

impl MapBackend {
    /// The latest TAT that is not after `now`, in whole microseconds: from there on a backend that
    /// forgets full buckets may differ from this one only if the clock steps back behind it.
    pub(crate) fn latest_full(&self, now: Timestamp) -> Timestamp {
        let buckets = self.buckets.lock().unwrap();
        let tats = buckets.values().map(|stored| match stored {
            Stored::Gcra(tat) => Timestamp::from_micros(tat.ceil_micros()),
            _ => Timestamp::default(),
        });
        tats.filter(|tat| *tat <= now).max().unwrap_or_default()
    }

    /// The same of buckets with tiers: the latest time, not after `now`, at which one has lapsed.
    pub(crate) fn latest_lapse(&self, now: Timestamp, limits: &Limits) -> Timestamp {
        let buckets = self.buckets.lock().unwrap();
        let lapses = buckets.iter().filter_map(|(key, stored)| {
            let (name, _) = key.split_once(':')?;
            match stored {
                Stored::Tiers(history) => {
                    let tiers = tiers_of(limits, name)?;
                    Some(Timestamp::from_micros(history.lapses_at(tiers)))
                }
                _ => None,
            }
        });
        lapses.filter(|at| *at <= now).max().unwrap_or_default()
    }
}

#[async_trait]
impl Backend for MapBackend {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut buckets = self.buckets.lock().expect("no decision panics");
        let now = batch.now.unwrap_or_else(|| self.clock.now());
        let keys: Vec<_> = batch
            .members
            .iter()
            .map(|member| member.key.to_string())
            .collect();
        let mut stored: Vec<_> = keys
            .iter()
            .map(|key| buckets.remove(key).unwrap_or_default())
            .collect();
        let outcome = Outcome::decide(batch, now, &mut stored);
        buckets.extend(keys.into_iter().zip(stored));
        Ok(outcome?)
    }
}
