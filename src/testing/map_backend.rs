use std::collections::HashMap;

use parking_lot::Mutex;

use crate::{
    backend::{Backend, BackendError, async_trait},
    clock::{Clock, SystemClock},
    decision::{Outcome, State},
    transaction::Batch,
};

/// The simplest backend, as shown in [`backend`](crate::backend): a map. Other backends are compared with it.
#[derive(Debug, Default)]
pub struct MapBackend {
    buckets: Mutex<HashMap<String, State>>,
    clock: SystemClock,
}

#[async_trait]
impl Backend for MapBackend {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut buckets = self.buckets.lock();
        let now = batch.now.unwrap_or_else(|| self.clock.now());
        let keys = batch.members.iter().map(|member| member.key.to_string());
        let keys: Vec<_> = keys.collect();
        let mut states: Vec<_> = keys.iter().map(|key| buckets.remove(key)).collect();
        let outcome = Outcome::decide(batch, now, &mut states);
        for (key, state) in keys.into_iter().zip(states) {
            buckets.extend(state.map(|state| (key, state)));
        }
        Ok(outcome?)
    }
}
