//! The tasks that renew permits, and give back those whose work has ended.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    mem,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{runtime::Id as RuntimeId, task::JoinSet, time};
use tracing::instrument::WithSubscriber;

use super::{error::LimiterError, permit_record::PermitRecord, record::record_loss};
use crate::task::runtime_with_timer;

/// The time between two searches for permits that are due. It is a quarter of the shortest hold.
const TICK: Duration = Duration::from_millis(250);
/// The most permits that are renewed or given back at the same time, so that their messages share commands.
const MOST_TOGETHER: usize = 256;

/// The permits of one limiter in this process: those that are held, and those that the store has not yet taken back. Held permits
/// are renewed every third of their hold, by any runtime that has taken one.
#[derive(Default)]
pub(super) struct PermitKeeper(Mutex<KeptPermits>);

#[derive(Default)]
struct KeptPermits {
    /// The records by number, so that permits are renewed in the order in which they were taken.
    records: BTreeMap<u64, Arc<PermitRecord>>,
    next: u64,
    /// The runtimes that have a task.
    running: HashSet<RuntimeId>,
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

    /// Starts a task on this runtime, unless it has one.
    pub(super) fn run_here(self: &Arc<Self>) -> Result<(), &'static str> {
        let runtime = runtime_with_timer()?;
        let id = runtime.id();
        if !self.0.lock().running.insert(id) {
            return Ok(());
        }
        let run = KeeperRun {
            keeper: Arc::clone(self),
            id,
            is_over: false,
            lost: Vec::new(),
        };
        runtime.spawn(run.until_none_is_left().with_current_subscriber());
        Ok(())
    }

    /// Lets all permits be renewed soon. The limits have changed, and permits may count for a shorter time now.
    pub(super) fn renew_soon(&self) {
        for record in self.0.lock().records.values() {
            record.renew_soon();
        }
    }

    /// Gives all permits back, before the process ends. Returns an error if one of them could not be given back. Its record stays.
    pub(super) async fn close(&self) -> Result<(), LimiterError> {
        let records: Vec<_> = self.0.lock().records.values().cloned().collect();
        let mut result = Ok(());
        for together in records.chunks(MOST_TOGETHER) {
            let mut released = JoinSet::new();
            for record in together {
                released.spawn(Arc::clone(record).release().with_current_subscriber());
            }
            while let Some(ended) = released.join_next().await {
                // A task without a result was cancelled with its runtime.
                if let Ok(Err(error)) = ended {
                    result = Err(error);
                }
            }
        }
        result
    }
}

/// A task that renews permits and gives them back. It ends with its runtime, or when no permit is left. Another one can start then.
struct KeeperRun {
    keeper: Arc<PermitKeeper>,
    id: RuntimeId,
    is_over: bool,
    /// Permits whose loss is not logged yet. Permits that are lost together share a line.
    lost: Vec<Arc<PermitRecord>>,
}

impl Drop for KeeperRun {
    fn drop(&mut self) {
        if !self.is_over {
            self.keeper.0.lock().running.remove(&self.id);
        }
    }
}

impl KeeperRun {
    async fn until_none_is_left(mut self) {
        loop {
            time::sleep(TICK).await;
            let due = self.due();
            let (working, ended) = due.iter().flatten().partition(|record| record.is_working());
            let before = self.lost.len();
            self.renew(working).await;
            give_back(ended).await;
            if self.lost.len() == before {
                self.log_losses();
            }
            if due.is_none() {
                return;
            }
        }
    }

    /// Returns the permits that are due, or ends the run if none is left.
    fn due(&mut self) -> Option<Vec<Arc<PermitRecord>>> {
        let mut kept = self.keeper.0.lock();
        if kept.records.is_empty() {
            // Removed under the lock that also guards the records, so that no permit is added that neither this task nor a new one
            // sees.
            kept.running.remove(&self.id);
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

    async fn renew(&mut self, records: Vec<&Arc<PermitRecord>>) {
        for together in records.chunks(MOST_TOGETHER) {
            let mut renewals = JoinSet::new();
            for record in together {
                let record = Arc::clone(record);
                let renewal = async move { Arc::clone(&record).renew().await.then_some(record) };
                renewals.spawn(renewal.with_current_subscriber());
            }
            while let Some(ended) = renewals.join_next().await {
                self.lost.extend(ended.ok().flatten());
            }
        }
    }

    fn log_losses(&mut self) {
        if self.lost.is_empty() {
            return;
        }
        let lost = mem::take(&mut self.lost);
        let limits = lost.iter().map(|record| record.client.limit().name());
        let limits: BTreeSet<&str> = limits.collect();
        tracing::warn!(
            permits = lost.len(),
            ?limits,
            "permits were lost while their work goes on: the process was paused or cut off for longer than the hold, which a \
             reload can have shortened, or the buckets were reset"
        );
        for record in lost {
            record_loss(&record.client.as_member());
        }
    }
}

async fn give_back(records: Vec<&Arc<PermitRecord>>) {
    for together in records.chunks(MOST_TOGETHER) {
        let mut refunds = JoinSet::new();
        for record in together {
            refunds.spawn(Arc::clone(record).give_back().with_current_subscriber());
        }
        while refunds.join_next().await.is_some() {}
    }
}
