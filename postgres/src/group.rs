//! Groups of decisions: a queue of batches, and the tasks that decide all waiting batches in one transaction.

use std::{
    collections::HashSet,
    iter, mem,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::yield_now,
    time::{sleep, timeout},
};
use tollgate::{
    backend::{
        BackendError,
        custom::{Batch, Outcome, OwnedBatch, State, StateError},
    },
    clock::Timestamp,
};

use crate::{
    CONNECTIONS, Settings,
    connection::{Connection, LockedRows},
    error::PostgresError,
    key::BucketName,
    sql::{Statements, StoredRow},
};

/// The most batches in one transaction.
const GROUP: usize = 512;

/// The most batches that wait. A longer queue is useless, because callers have deadlines.
const MOST_WAITING: usize = 4096;

/// The time for which a worker without batches keeps its connection.
const LINGER: Duration = Duration::from_secs(1);

/// The longest time for which a worker waits for a connection. Logging in can take longer than a decision.
const LOGIN: Duration = Duration::from_secs(2);

/// The pause before the outcome of a transaction is looked up again.
const LOOK_UP_PAUSE: Duration = Duration::from_millis(1);

/// The additional time for which a bucket is kept if it is not decided by the database's clock, in microseconds.
const OTHER_CLOCK_MARGIN: u64 = 3600 * 1_000_000;

pub(crate) type BatchResult = Result<Outcome, BackendError>;

/// A batch whose caller waits. The caller shares it, and frees it: a worker that frees batches of many threads waits for the allocator
/// at each of them.
pub(crate) struct WaitingBatch {
    pub(crate) batch: OwnedBatch,
    /// The buckets of its members.
    pub(crate) names: Arc<[BucketName]>,
    pub(crate) reply: oneshot::Sender<BatchResult>,
}

impl WaitingBatch {
    fn keys(&self) -> impl Iterator<Item = &Arc<[u8]>> {
        self.names.iter().map(|name| &name.key)
    }
}

/// The waiting batches, and the workers that decide them.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    sweep: Mutex<Sweep>,
}

#[derive(Default)]
struct QueueState {
    batches: Vec<WaitingBatch>,
    /// The keys of the buckets that are being decided. Another transaction would only wait for their rows.
    locked: HashSet<Arc<[u8]>>,
    workers: u32,
    /// Wakes workers that have nothing to do. The last one has decided most recently, so its connection is warm.
    idle: Vec<oneshot::Sender<()>>,
}

impl Queue {
    /// Adds a batch. It is decided even if its caller is not polled.
    pub(crate) fn push(
        self: &Arc<Self>,
        batch: WaitingBatch,
        settings: &Arc<Settings>,
    ) -> Result<(), BackendError> {
        let runtime = Handle::try_current();
        let runtime = runtime.map_err(|_| BackendError::not_done(PostgresError::Ended))?;
        let mut state = self.state.lock();
        if state.batches.len() >= MOST_WAITING {
            return Err(BackendError::not_done(PostgresError::Busy));
        }
        // The worker that decides its bucket takes it next.
        let has_worker = batch.keys().any(|key| state.locked.contains(key));
        state.batches.push(batch);
        if !has_worker && !state.wake() && state.workers < CONNECTIONS {
            state.workers += 1;
            let worker = Worker {
                queue: Arc::clone(self),
                settings: Arc::clone(settings),
                locked: Vec::new(),
                is_counted: true,
            };
            runtime.spawn(worker.work());
        }
        Ok(())
    }
}

impl QueueState {
    /// Wakes a worker, unless all are deciding or have ended.
    fn wake(&mut self) -> bool {
        iter::from_fn(|| self.idle.pop()).any(|idle| idle.send(()).is_ok())
    }

    /// Takes the batches whose buckets are not locked. A batch does not overtake an earlier one of the same bucket.
    fn take_group(&mut self) -> Vec<WaitingBatch> {
        let mut locked = self.locked.clone();
        let ready = self.batches.extract_if(.., |batch| {
            let is_locked = batch.keys().any(|key| locked.contains(key));
            if is_locked {
                locked.extend(batch.keys().cloned());
            }
            !is_locked
        });
        ready.take(GROUP).collect()
    }
}

/// A task that decides groups as long as there are batches.
struct Worker {
    queue: Arc<Queue>,
    settings: Arc<Settings>,
    /// The keys of the buckets that it is deciding.
    locked: Vec<Arc<[u8]>>,
    is_counted: bool,
}

/// The worker can be dropped at any await point, because its runtime has ended. Without another worker, the waiting batches fail.
impl Drop for Worker {
    fn drop(&mut self) {
        self.unlock();
        let mut state = self.queue.state.lock();
        state.workers -= u32::from(self.is_counted);
        if state.workers == 0 && self.is_counted {
            let left = mem::take(&mut state.batches);
            fail(left, PostgresError::Ended, BackendError::not_done);
        }
        // Batches can have waited for this worker's buckets.
        state.wake();
    }
}

impl Worker {
    async fn work(mut self) {
        let mut kept = None;
        while let Some(group) = self.next_group().await {
            kept = self.decide(group, kept.take()).await;
            self.unlock();
            if let Some(connection) = kept.take() {
                kept = self.sweep(connection).await;
            }
        }
        if let Some(connection) = kept {
            connection.release();
        }
    }

    /// Returns batches, and locks their buckets. The worker has ended if none have come for a while.
    async fn next_group(&mut self) -> Option<Vec<WaitingBatch>> {
        let mut has_waited = false;
        loop {
            if !self.queue.state.lock().batches.is_empty() {
                // Lets callers that are ready add their batches, so that these share a transaction.
                yield_now().await;
            }
            let woken = {
                let mut state = self.queue.state.lock();
                let group = state.take_group();
                if !group.is_empty() {
                    for key in group.iter().flat_map(WaitingBatch::keys) {
                        if state.locked.insert(Arc::clone(key)) {
                            self.locked.push(Arc::clone(key));
                        }
                    }
                    return Some(group);
                }
                if has_waited {
                    state.workers -= 1;
                    self.is_counted = false;
                    return None;
                }
                let (wake, woken) = oneshot::channel();
                state.idle.push(wake);
                woken
            };
            has_waited = timeout(LINGER, woken).await.is_err();
        }
    }

    fn unlock(&mut self) {
        let mut state = self.queue.state.lock();
        for key in self.locked.drain(..) {
            state.locked.remove(&key);
        }
    }

    /// Decides a group, and returns the connection if it can be used again. If the connection is lost and nothing is stored, the
    /// group is decided once more on a fresh one, because a kept connection can have been lost long ago.
    async fn decide(
        &self,
        mut group: Vec<WaitingBatch>,
        mut kept: Option<Connection>,
    ) -> Option<Connection> {
        let mut is_first = true;
        loop {
            let connection = match kept.take() {
                Some(connection) => connection,
                None => match within(LOGIN, Connection::acquire(&self.settings.pool)).await {
                    Ok(connection) => connection,
                    Err(error) => {
                        fail(group, error, BackendError::not_done);
                        return None;
                    }
                },
            };
            // Callers that have left are not charged.
            group.retain(|one| !one.reply.is_closed());
            if group.is_empty() {
                return Some(connection);
            }
            let error = match self.transact(&group, connection).await {
                Ok((connection, outcomes)) => {
                    answer(group, outcomes);
                    return connection;
                }
                Err(TransactionError::NotDone(_, error)) if is_first && error.is_loss() => {
                    is_first = false;
                    continue;
                }
                Err(error) => error,
            };
            let (kept, error, kind): (_, _, fn(_) -> _) = match error {
                TransactionError::NotDone(kept, error) => (kept, error, BackendError::not_done),
                TransactionError::Unknown(error) => (None, error, BackendError::unavailable),
            };
            fail(group, error, kind);
            return kept;
        }
    }

    /// Decides a group in one transaction. Returns the connection if it can be used again, and the outcomes.
    async fn transact(
        &self,
        group: &[WaitingBatch],
        mut connection: Connection,
    ) -> Result<(Option<Connection>, Vec<BatchResult>), TransactionError> {
        let statements = &self.settings.statements;
        let deadline = self.settings.deadline;
        let names = sorted_names(group);
        let rows = match within(deadline, connection.lock(statements, &names, deadline)).await {
            Ok(rows) => rows,
            Err(error) => return Err(self.rolled_back(connection, error).await),
        };
        self.queue.sweep.lock().saw(&rows);
        let mut buckets: Vec<_> = rows
            .states
            .iter()
            .map(|state| OpenBucket::read(state))
            .collect();
        let outcomes = group.iter().map(|request| {
            let indexes = request.names.iter().map(|name| {
                let found = names.binary_search_by_key(&&*name.key, |name| &*name.key);
                found.unwrap_or_default()
            });
            let indexes: Vec<_> = indexes.collect();
            let decide = |batch: &Batch<'_>| decide(batch, &indexes, &mut buckets, rows.now);
            request.batch.as_batch(decide)
        });
        let outcomes: Vec<_> = outcomes.collect();
        let changed = names.iter().zip(&buckets);
        let changed: Vec<_> = changed
            .filter_map(|(name, bucket)| bucket.row(&name.key))
            .collect();
        match within(deadline, connection.run(&statements.commit(&changed))).await {
            Ok(_) => Ok((Some(connection), outcomes)),
            // The transaction has changed nothing, so the answers hold even if it is not committed.
            Err(_) if changed.is_empty() => Ok((None, outcomes)),
            Err(error) if error.is_certain() => Err(self.rolled_back(connection, error).await),
            Err(error) => {
                drop(connection);
                match self.is_committed(rows.transaction).await {
                    Some(true) => Ok((None, outcomes)),
                    Some(false) => Err(TransactionError::NotDone(None, error)),
                    None => Err(TransactionError::Unknown(error)),
                }
            }
        }
    }

    /// Looks up how a transaction has ended whose connection was lost with the answer to its commit. The server may still be about
    /// to end it.
    async fn is_committed(&self, transaction: u64) -> Option<bool> {
        let look_up = async {
            let mut connection = Connection::acquire(&self.settings.pool).await?;
            let look_up = Statements::outcome_of(transaction);
            loop {
                if let Some(outcome) = connection.run(&look_up).await? {
                    connection.release();
                    return Ok(outcome == 1);
                }
                sleep(LOOK_UP_PAUSE).await;
            }
        };
        within(self.settings.deadline, look_up).await.ok()
    }

    /// Ends a transaction that has certainly stored nothing, and keeps its connection if that can be used again.
    async fn rolled_back(
        &self,
        mut connection: Connection,
        error: PostgresError,
    ) -> TransactionError {
        let mut kept = None;
        if error.leaves_connection() {
            let rolled_back = within(self.settings.deadline, connection.run("ROLLBACK")).await;
            kept = rolled_back.is_ok().then_some(connection);
        }
        TransactionError::NotDone(kept, error)
    }

    /// Deletes expired rows of a few pages, if that is due.
    async fn sweep(&self, mut connection: Connection) -> Option<Connection> {
        let Some((first, pages)) = self.queue.sweep.lock().next() else {
            return Some(connection);
        };
        // Batches that have waited for this worker's buckets do not wait for the sweep.
        self.queue.state.lock().wake();
        let sweep = self.settings.statements.sweep(first, pages);
        match within(self.settings.deadline, connection.run(&sweep)).await {
            Ok(pages) => {
                self.queue.sweep.lock().pages = pages.unwrap_or_default();
                Some(connection)
            }
            Err(error) => error.leaves_connection().then_some(connection),
        }
    }
}

/// Why a group was not decided.
enum TransactionError {
    /// Nothing was stored. The connection can be used again.
    NotDone(Option<Connection>, PostgresError),
    /// The transaction may have been committed.
    Unknown(PostgresError),
}

async fn within<T>(
    deadline: Duration,
    step: impl Future<Output = Result<T, PostgresError>>,
) -> Result<T, PostgresError> {
    let done = timeout(deadline, step).await;
    done.unwrap_or(Err(PostgresError::Late))
}

/// Returns the buckets of a group by their keys in ascending order, in which all transactions lock them, each once.
fn sorted_names(group: &[WaitingBatch]) -> Vec<&BucketName> {
    let mut names: Vec<_> = group.iter().flat_map(|request| &*request.names).collect();
    names.sort_unstable_by_key(|name| &*name.key);
    names.dedup_by_key(|name| &*name.key);
    names
}

/// A bucket in a transaction.
struct OpenBucket {
    /// A stored state can be damaged.
    state: Result<Option<State>, StateError>,
    /// The instant at which the bucket expires by the database's clock, if it has changed.
    expires_at: Option<u64>,
}

impl OpenBucket {
    fn read(bytes: &[u8]) -> Self {
        let is_new = bytes.is_empty();
        Self {
            state: (!is_new).then(|| State::from_bytes(bytes)).transpose(),
            expires_at: None,
        }
    }

    /// Returns what to store, if it has changed.
    fn row<'a>(&self, key: &'a [u8]) -> Option<StoredRow<'a>> {
        let state = self.state.as_ref().ok()?.as_ref();
        Some(StoredRow {
            key,
            state: state.map(State::to_bytes).unwrap_or_default(),
            expires_at: self.expires_at?,
        })
    }
}

/// Decides a batch by the buckets at `indexes`, and changes them. `clock` is the time of the database.
fn decide(
    batch: &Batch<'_>,
    indexes: &[usize],
    buckets: &mut [OpenBucket],
    clock: u64,
) -> BatchResult {
    let states = indexes.iter().map(|index| buckets[*index].state.clone());
    let states = states.collect::<Result<Vec<_>, _>>();
    let states = states.map_err(BackendError::undecidable)?;
    let margin = match batch.now {
        Some(_) => OTHER_CLOCK_MARGIN,
        None => 0,
    };
    let now = batch.now.unwrap_or(Timestamp::from_micros(clock));
    let (outcome, changes) = batch.decide(now, states);
    for change in changes {
        let full_after = change.full_after.map_or(u64::MAX, |time| {
            u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
        });
        let expires_at = clock.saturating_add(full_after).saturating_add(margin);
        buckets[indexes[change.index]] = OpenBucket {
            state: Ok(change.state),
            // A `bigint` has no larger number.
            expires_at: Some(expires_at.min(i64::MAX.unsigned_abs())),
        };
    }
    outcome
}

fn answer(group: Vec<WaitingBatch>, outcomes: Vec<BatchResult>) {
    for (request, outcome) in group.into_iter().zip(outcomes) {
        drop(request.batch);
        drop(request.names);
        // The caller may have left.
        let _ = request.reply.send(outcome);
    }
}

/// Answers all requests with one error.
fn fail(
    requests: impl IntoIterator<Item = WaitingBatch>,
    error: PostgresError,
    kind: fn(Arc<PostgresError>) -> BackendError,
) {
    let error = Arc::new(error);
    for request in requests {
        let _ = request.reply.send(Err(kind(Arc::clone(&error))));
    }
}

/// The pages that are swept next. While many rows are new, more pages are swept.
#[derive(Default)]
struct Sweep {
    /// The pages of the table.
    pages: u64,
    next: u64,
    last: Option<Instant>,
    new_rows: u64,
}

impl Sweep {
    const EVERY: Duration = Duration::from_millis(50);
    const FEWEST_PAGES: u64 = 4;
    const MOST_PAGES: u64 = 512;
    /// A page has room for about forty rows.
    const NEW_ROWS_PER_PAGE: u64 = 10;

    fn saw(&mut self, rows: &LockedRows) {
        let new = rows.states.iter().filter(|state| state.is_empty());
        self.new_rows += new.count() as u64;
    }

    /// Returns the first page and the number of pages, if a sweep is due.
    fn next(&mut self) -> Option<(u64, u64)> {
        if self.last.is_some_and(|last| last.elapsed() < Self::EVERY) {
            return None;
        }
        self.last = Some(Instant::now());
        let first = if self.next < self.pages { self.next } else { 0 };
        let pages = mem::take(&mut self.new_rows) / Self::NEW_ROWS_PER_PAGE;
        let pages = pages.clamp(Self::FEWEST_PAGES, Self::MOST_PAGES);
        self.next = first + pages;
        Some((first, pages))
    }
}
