//! A custom backend, and a wrapper around any backend that counts its decisions.
//!
//! ```sh
//! cargo run --example custom_backend
//! ```

#[path = "shared/failure.rs"]
mod failure;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use tollgate::{
    Limit, Limiter, Limits, Transaction,
    backend::{
        Backend, BackendError, async_trait,
        custom::{Answer, Batch, Outcome, State},
    },
    clock::{Clock, SystemClock},
    decision::Source,
};

use self::failure::Failure;

/// Keeps all buckets in one map behind one lock.
#[derive(Debug, Default)]
struct MapBackend {
    buckets: Mutex<HashMap<String, State>>,
    clock: SystemClock,
}

#[async_trait]
impl Backend for MapBackend {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut buckets = self
            .buckets
            .lock()
            .map_err(|_| BackendError::unavailable("poisoned"))?;
        let now = batch.now.unwrap_or_else(|| self.clock.now());
        let keys: Vec<_> = batch.keys().map(|key| key.to_string()).collect();
        let states = keys.iter().map(|key| buckets.get(key).cloned());
        let (outcome, changes) = batch.decide(now, states);
        for change in changes {
            let key = &keys[change.index];
            match change.state {
                Some(state) => buckets.insert(key.clone(), state),
                None => buckets.remove(key),
            };
        }
        outcome
    }
}

/// Counts the batches that another backend decides.
#[derive(Debug)]
struct Counted<B> {
    inner: B,
    batches: Arc<AtomicU64>,
}

#[async_trait]
impl<B: Backend> Backend for Counted<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.inner.apply(batch).await
    }

    fn try_apply(
        &self,
        batch: &Batch<'_>,
        answers: &mut [Answer],
    ) -> Option<Result<Source, BackendError>> {
        let decided = self.inner.try_apply(batch, answers)?;
        self.batches.fetch_add(1, Ordering::Relaxed);
        Some(decided)
    }

    fn wrapped(&self) -> Option<&dyn Backend> {
        Some(&self.inner)
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let batches = Arc::new(AtomicU64::new(0));
    let backend = Counted {
        inner: MapBackend::default(),
        batches: Arc::clone(&batches),
    };
    let limits = Limits::builder()
        .limit("uploads", Limit::per_hour(100).burst(3))
        .build()?;
    let limiter = Limiter::new(limits, backend);

    for attempt in 1..=4 {
        let decision = limiter.spend(&Transaction::new("uploads", "alice")).await?;
        let verdict = if decision.allowed() {
            "allowed"
        } else {
            "denied"
        };
        println!("upload {attempt}: {verdict}");
    }
    println!("{} batches decided", batches.load(Ordering::Relaxed));
    Ok(())
}
