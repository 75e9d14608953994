//! The tasks that renew permits.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use ahash::RandomState;
use parking_lot::Mutex;
use tokio::{runtime::Id as RuntimeId, task::JoinSet, time};
use tracing::instrument::WithSubscriber;

use super::{error::LimiterError, permits::PermitRecord};
use crate::task::runtime_with_timer;

/// How often permits that are due for a renewal are looked for: four times within the shortest hold.
const TICK: Duration = Duration::from_millis(250);
/// The most permits that are renewed at the same time. Their renewals travel together.
const RENEWED_TOGETHER: usize = 256;

/// The permits that a process holds by one limiter. Each is renewed every third of its hold, by any runtime that has taken one.
#[derive(Default)]
pub(super) struct PermitKeeper(Mutex<KeptPermits>);

#[derive(Default)]
struct KeptPermits {
    records: HashMap<u64, Arc<PermitRecord>, RandomState>,
    next: u64,
    /// The runtimes with a task that renews.
    renewing: HashSet<RuntimeId>,
}

impl PermitKeeper {
    pub(super) fn keep(&self, record: impl FnOnce(u64) -> PermitRecord) -> Arc<PermitRecord> {
        let mut kept = self.0.lock();
        kept.next += 1;
        let record = Arc::new(record(kept.next));
        kept.records.insert(record.number, Arc::clone(&record));
        record
    }

    pub(super) fn forget(&self, number: u64) {
        let forgotten = self.0.lock().records.remove(&number);
        drop(forgotten);
    }

    /// Starts a task on this runtime that renews permits, unless it has one.
    pub(super) fn renew_here(self: &Arc<Self>) -> Result<(), &'static str> {
        let runtime = runtime_with_timer()?;
        let id = runtime.id();
        if !self.0.lock().renewing.insert(id) {
            return Ok(());
        }
        let run = RenewalRun {
            keeper: Arc::clone(self),
            id,
            is_over: false,
        };
        runtime.spawn(run.renew_until_none_is_left().with_current_subscriber());
        Ok(())
    }

    /// Lets all permits be renewed soon, because the limits have changed: they may count for a shorter time now.
    pub(super) fn renew_soon(&self) {
        for record in self.0.lock().records.values() {
            record.renew_soon();
        }
    }

    /// Gives all permits back, before the process ends. Fails if any of them could not be given back.
    pub(super) async fn close(&self) -> Result<(), LimiterError> {
        let records: Vec<_> = self.0.lock().records.values().cloned().collect();
        let mut released = JoinSet::new();
        for record in records {
            released.spawn(record.release());
        }
        let mut result = Ok(());
        while let Some(ended) = released.join_next().await {
            // A task without a result was cancelled with its runtime.
            if let Ok(Err(error)) = ended {
                result = Err(error);
            }
        }
        result
    }
}

/// A task that renews permits. When it ends, with its runtime or because no permit is left, another one can begin.
struct RenewalRun {
    keeper: Arc<PermitKeeper>,
    id: RuntimeId,
    is_over: bool,
}

impl Drop for RenewalRun {
    fn drop(&mut self) {
        if !self.is_over {
            self.keeper.0.lock().renewing.remove(&self.id);
        }
    }
}

impl RenewalRun {
    async fn renew_until_none_is_left(mut self) {
        loop {
            time::sleep(TICK).await;
            let Some(due) = self.due() else {
                return;
            };
            for together in due.chunks(RENEWED_TOGETHER) {
                renew_together(together).await;
            }
        }
    }

    /// Returns the permits that are due, or ends the run if none is left.
    fn due(&mut self) -> Option<Vec<Arc<PermitRecord>>> {
        let mut kept = self.keeper.0.lock();
        if kept.records.is_empty() {
            // Under the same lock, so that no permit is added that this task does not see.
            kept.renewing.remove(&self.id);
            self.is_over = true;
            return None;
        }
        let records = kept.records.values();
        Some(
            records
                .filter(|record| record.is_due_within(TICK))
                .cloned()
                .collect(),
        )
    }
}

async fn renew_together(records: &[Arc<PermitRecord>]) {
    let mut renewals = JoinSet::new();
    for record in records {
        renewals.spawn(Arc::clone(record).renew().with_current_subscriber());
    }
    while renewals.join_next().await.is_some() {}
}
