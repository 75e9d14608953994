//! The database and its blocking calls: buckets by key, and the time at which each is full.

use std::{path::Path, time::Duration};

use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table, TableDefinition,
};
use tollgate::{
    backend::{
        BackendError,
        custom::{Batch, Outcome, OwnedBatch, State, StateError},
    },
    clock::{Clock, SystemClock, Timestamp},
};

/// A bucket's key, the instant at which it is full (µs since the epoch, `u64::MAX` for never), and the bytes of its state.
pub(crate) const BUCKETS: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("buckets");

/// The instant at which a bucket is full, and its key.
const FULL: TableDefinition<'_, (u64, &str), ()> = TableDefinition::new("full");

/// The number of full buckets to remove for each written decision. It is more than one, so that their number shrinks.
const REMOVED_PER_DECISION: usize = 2;

/// An error of the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The database has an error.
    #[error("the file of buckets cannot be used")]
    Database(#[source] Box<redb::Error>),
    /// A bucket is damaged.
    #[error("the bucket `{0}` cannot be read")]
    Bucket(String, #[source] StateError),
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self::Database(Box::new(error.into()))
    }
}

#[derive(Debug)]
pub(crate) struct Buckets {
    database: Database,
    clock: SystemClock,
}

impl Buckets {
    /// Opens a file, or creates one.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let database = Database::create(path)?;
        // Creates the tables, because a missing table is an error for readers.
        let transaction = database.begin_write()?;
        transaction.open_table(BUCKETS)?;
        transaction.open_table(FULL)?;
        transaction.commit()?;
        let clock = SystemClock::new();
        Ok(Self { database, clock })
    }

    /// The number of buckets, including full ones.
    pub(crate) fn len(&self) -> Result<usize, StoreError> {
        let table = self.database.begin_read()?.open_table(BUCKETS)?;
        Ok(usize::try_from(table.len()?).unwrap_or(usize::MAX))
    }

    /// Decides batches in their order, and stores all changes in one transaction. After an error, nothing is stored.
    pub(crate) fn decide<'a>(
        &self,
        batches: impl Iterator<Item = &'a OwnedBatch>,
    ) -> Result<Vec<Result<Outcome, BackendError>>, StoreError> {
        let transaction = self.database.begin_write()?;
        let (mut outcomes, mut written) = (Vec::new(), false);
        {
            let mut open = OpenBuckets {
                buckets: transaction.open_table(BUCKETS)?,
                full: transaction.open_table(FULL)?,
            };
            for batch in batches {
                let outcome = batch.as_batch(|batch| {
                    let now = batch.now.unwrap_or_else(|| self.clock.now());
                    open.decide(batch, now, &mut written)
                });
                outcomes.push(match outcome {
                    Ok(outcome) => outcome,
                    Err(error @ StoreError::Bucket(..)) => Err(BackendError::undecidable(error)),
                    Err(error) => return Err(error),
                });
            }
        }
        // A denial or a check changes nothing, and does not wait for the disk.
        if written {
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        Ok(outcomes)
    }
}

/// The tables in a transaction.
struct OpenBuckets<'t> {
    buckets: Table<'t, &'static str, (u64, &'static [u8])>,
    full: Table<'t, (u64, &'static str), ()>,
}

impl OpenBuckets<'_> {
    fn decide(
        &mut self,
        batch: &Batch<'_>,
        now: Timestamp,
        written: &mut bool,
    ) -> Result<Result<Outcome, BackendError>, StoreError> {
        let keys: Vec<_> = batch.keys().map(|key| key.to_string()).collect();
        let states = keys.iter().map(|key| self.load(key));
        let states = states.collect::<Result<Vec<_>, _>>()?;
        let (outcome, changes) = batch.decide(now, states);
        for change in changes {
            let key = &keys[change.index];
            self.remove(key)?;
            if let Some(state) = change.state {
                let full_at = now.saturating_add(change.full_after.unwrap_or(Duration::MAX));
                self.store(key, &state, full_at.as_micros())?;
            }
            self.remove_full(now)?;
            *written = true;
        }
        Ok(outcome)
    }

    /// Loads a bucket. `None` is a full one.
    fn load(&self, key: &str) -> Result<Option<State>, StoreError> {
        let Some(found) = self.buckets.get(key)? else {
            return Ok(None);
        };
        let (_, bytes) = found.value();
        let state = State::from_bytes(bytes);
        let state = state.map_err(|error| StoreError::Bucket(key.to_owned(), error))?;
        Ok(Some(state))
    }

    fn store(&mut self, key: &str, state: &State, full_at: u64) -> Result<(), StoreError> {
        self.buckets.insert(key, (full_at, &*state.to_bytes()))?;
        self.full.insert((full_at, key), ())?;
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<(), StoreError> {
        let removed = self.buckets.remove(key)?;
        if let Some(full_at) = removed.map(|removed| removed.value().0) {
            self.full.remove((full_at, key))?;
        }
        Ok(())
    }

    /// Removes some of the buckets that are full at `now`.
    fn remove_full(&mut self, now: Timestamp) -> Result<(), StoreError> {
        for _ in 0..REMOVED_PER_DECISION {
            let Some(first) = self.full.first()? else {
                break;
            };
            let (full_at, key) = first.0.value();
            if full_at > now.as_micros() {
                break;
            }
            let key = key.to_owned();
            drop(first);
            self.remove(&key)?;
        }
        Ok(())
    }
}
