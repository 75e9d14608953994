//! A store that fails on order, and remembers what it was asked.

use std::{
    future::pending,
    mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;
use tollgate::{
    MemoryBackend,
    backend::{Backend, BackendError, async_trait},
    decision::Outcome,
    transaction::{Batch, Mode, Operation},
};

/// What a store does with a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Fate {
    #[default]
    Works,
    /// It does nothing, and says so.
    Fails,
    /// It does nothing, and says so after this time.
    Refuses(Duration),
    /// It does nothing, and does not say so.
    Away,
    /// It never answers.
    Hangs,
    Moves,
    /// It decides, and then fails to say so.
    Forgets,
    /// It decides, and answers after this time.
    Takes(Duration),
    /// It fails on every fourth call.
    Stumbles,
}

/// Clones are the same store, which has to be waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store(Arc<StoreState>);

#[derive(Debug, Default)]
struct StoreState {
    memory: Arc<MemoryBackend>,
    /// Of other calls, and of debits.
    fates: Mutex<[Fate; 2]>,
    calls: AtomicUsize,
    debits: Mutex<Vec<(String, u32)>>,
}

impl Store {
    pub(crate) fn new(fate: Fate) -> Self {
        let store = Self::default();
        store.becomes(fate);
        store
    }

    pub(crate) fn becomes(&self, fate: Fate) {
        self.becomes_for_debits(fate, fate);
    }

    pub(crate) fn becomes_for_debits(&self, fate: Fate, of_debits: Fate) {
        *self.0.fates.lock().unwrap() = [fate, of_debits];
    }

    /// The buckets of the store, without its faults.
    pub(crate) fn memory(&self) -> Arc<MemoryBackend> {
        Arc::clone(&self.0.memory)
    }

    /// The number of calls since this was last asked.
    pub(crate) fn calls(&self) -> usize {
        self.0.calls.swap(0, Ordering::SeqCst)
    }

    /// The debits that it was asked for since this was last asked: clients and costs.
    pub(crate) fn debits(&self) -> Vec<(String, u32)> {
        let mut debits = mem::take(&mut *self.0.debits.lock().unwrap());
        debits.sort();
        debits
    }

    /// The fate of a call, whose debits are remembered.
    fn fate_of(&self, batch: &Batch<'_>) -> Fate {
        let members = batch.members.iter();
        let debits = members.filter(|member| member.mode == Mode::Debit);
        let debits: Vec<_> = debits
            .map(|member| (member.key.id.to_owned(), member.cost))
            .collect();
        let is_debit = batch.operation == Operation::Spend && !debits.is_empty();
        self.0.debits.lock().unwrap().extend(debits);
        self.0.fates.lock().unwrap()[usize::from(is_debit)]
    }
}

#[async_trait]
impl Backend for Store {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let calls = 1 + self.0.calls.fetch_add(1, Ordering::SeqCst);
        let decided = || self.0.memory.apply(batch);
        match self.fate_of(batch) {
            Fate::Fails => Err(BackendError::not_done("lost")),
            Fate::Refuses(after) => {
                sleep(after).await;
                Err(BackendError::not_done("refused"))
            }
            Fate::Away => Err(BackendError::unavailable("no answer")),
            Fate::Hangs => pending().await,
            Fate::Moves => Err(BackendError::Moving("READONLY".into())),
            Fate::Forgets => {
                decided().await?;
                Err(BackendError::unavailable("forgotten"))
            }
            Fate::Takes(after) => {
                let decided = decided().await;
                sleep(after).await;
                decided
            }
            Fate::Stumbles if calls.is_multiple_of(4) => Err(BackendError::unavailable("late")),
            Fate::Works | Fate::Stumbles => decided().await,
        }
    }
}
