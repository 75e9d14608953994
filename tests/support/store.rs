//! A store that fails on command, and counts its calls.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{task::yield_now, time::sleep};
use tollgate::{
    MemoryBackend,
    backend::{
        Backend, BackendError, async_trait,
        custom::{Batch, Outcome},
    },
    clock::{Clock, TokioClock},
};

/// The reaction of a store to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Fate {
    #[default]
    Works,
    /// It does nothing, and the error says so.
    Fails,
    /// It does nothing, and the error leaves that open.
    NoReply,
    /// It never answers.
    Hangs,
    /// It decides, but its answer is lost.
    AppliesThenErrors,
    /// It decides, and answers after this time.
    Takes(Duration),
    /// It decides after this time.
    Decides(Duration),
    /// It fails on every fourth call.
    FailsEveryFourth,
    /// A value of the bucket is broken.
    CorruptBucket,
}

/// A store for which callers have to wait, by tokio's clock. Clones are the same store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store(Arc<StoreState>);

#[derive(Debug, Default)]
struct StoreState {
    memory: Arc<MemoryBackend>,
    clock: TokioClock,
    fate: Mutex<Fate>,
    calls: AtomicUsize,
}

impl Store {
    pub(crate) fn new(fate: Fate) -> Self {
        let store = Self::default();
        store.set_fate(fate);
        store
    }

    /// Sets what happens to calls from now on.
    pub(crate) fn set_fate(&self, fate: Fate) {
        *self.0.fate.lock().unwrap() = fate;
    }

    /// The buckets of the store, without its faults and its clock.
    pub(crate) fn memory(&self) -> Arc<MemoryBackend> {
        Arc::clone(&self.0.memory)
    }

    /// The number of calls since this was last asked.
    pub(crate) fn calls(&self) -> usize {
        self.0.calls.swap(0, Ordering::SeqCst)
    }
}

#[async_trait]
impl Backend for Store {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let calls = 1 + self.0.calls.fetch_add(1, Ordering::SeqCst);
        let decided = || {
            let now = batch.now.unwrap_or_else(|| self.0.clock.now());
            let batch = batch.at(Some(now));
            async move { self.0.memory.apply(&batch).await }
        };
        let fate = *self.0.fate.lock().unwrap();
        match fate {
            Fate::Fails => return Err(BackendError::not_done("lost")),
            Fate::NoReply => return Err(BackendError::unavailable("no answer")),
            Fate::Hangs => pending().await,
            Fate::AppliesThenErrors => {
                decided().await?;
                yield_now().await;
                return Err(BackendError::unavailable("forgotten"));
            }
            Fate::Takes(time) => {
                let decided = decided().await;
                sleep(time).await;
                return decided;
            }
            Fate::Decides(time) => sleep(time).await,
            Fate::FailsEveryFourth if calls.is_multiple_of(4) => {
                return Err(BackendError::unavailable("late"));
            }
            Fate::Works | Fate::FailsEveryFourth => {}
            Fate::CorruptBucket => {
                return Err(BackendError::Undecidable("WRONGTYPE of 7:client".into()));
            }
        }
        decided().await
    }
}
