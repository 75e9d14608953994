use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};

use crate::{
    backend::{Backend, BackendError, async_trait},
    clock::{Clock, SystemClock, Timestamp},
    decision::{Outcome, Stored},
    transaction::{Algorithm, Batch},
};

/// The simplest backend, as shown in [`backend`](crate::backend): a map that forgets nothing.
///
/// Other backends are compared with it. It grows without bound.
#[derive(Debug, Default)]
pub struct MapBackend {
    buckets: Mutex<HashMap<String, Stored>>,
    clock: SystemClock,
}

impl MapBackend {
    /// Returns the latest instant, not after `now`, at which a bucket has become full by its algorithm. A backend that
    /// forgets full buckets may only differ from this one if the clock steps back behind this instant. `algorithm` gets
    /// the key of a limit and its algorithm.
    pub(super) fn latest_full<'a>(
        &self,
        now: Timestamp,
        algorithm: impl Fn(&str) -> Option<&'a Algorithm>,
    ) -> Timestamp {
        let buckets = self.buckets();
        let full = buckets.iter().filter_map(|(key, stored)| {
            let (limit, _) = key.split_once(':')?;
            stored.full_at(algorithm(limit)?)
        });
        full.filter(|at| *at <= now).max().unwrap_or_default()
    }

    /// The map is consistent even after a failed case, so a poisoned lock can be ignored.
    fn buckets(&self) -> MutexGuard<'_, HashMap<String, Stored>> {
        self.buckets.lock()
    }
}

#[async_trait]
impl Backend for MapBackend {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut buckets = self.buckets();
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
