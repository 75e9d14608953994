//! Groups of decisions: a queue of batches, and the tasks that decide all waiting batches in one transaction.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{self, mpsc, oneshot},
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

/// The time for which a task without batches keeps its connection.
const LINGER: Duration = Duration::from_secs(1);

/// The pause before the outcome of a transaction is looked up again.
const LOOK_UP_PAUSE: Duration = Duration::from_millis(1);

/// The additional time for which a bucket is kept if it is not decided by the database's clock, in microseconds.
const OTHER_CLOCK_MARGIN: u64 = 3600 * 1_000_000;

pub(crate) type BatchResult = Result<Outcome, BackendError>;

/// A batch whose caller waits.
pub(crate) struct WaitingBatch {
    pub(crate) batch: OwnedBatch,
    /// The buckets of its members.
    pub(crate) names: Vec<BucketName>,
    pub(crate) reply: oneshot::Sender<BatchResult>,
}

/// The waiting batches, and the number of tasks that decide them.
pub(crate) struct Queue {
    sender: mpsc::Sender<WaitingBatch>,
    inbox: sync::Mutex<mpsc::Receiver<WaitingBatch>>,
    workers: AtomicU32,
    sweep: Mutex<Sweep>,
}

impl Default for Queue {
    fn default() -> Self {
        let (sender, inbox) = mpsc::channel(MOST_WAITING);
        Self {
            sender,
            inbox: sync::Mutex::new(inbox),
            workers: AtomicU32::new(0),
            sweep: Mutex::default(),
        }
    }
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
        let sent = self.sender.try_send(batch);
        sent.map_err(|_| BackendError::not_done(PostgresError::Busy))?;
        if self.counts_one_more() {
            let worker = Worker {
                queue: Arc::clone(self),
                settings: Arc::clone(settings),
                is_counted: true,
            };
            runtime.spawn(worker.work());
        }
        Ok(())
    }

    /// Counts one more worker, unless there are enough.
    fn counts_one_more(&self) -> bool {
        let more = |workers| (workers < CONNECTIONS).then_some(workers + 1);
        self.workers.fetch_update(SeqCst, SeqCst, more).is_ok()
    }
}

/// A task that decides groups as long as there are batches.
struct Worker {
    queue: Arc<Queue>,
    settings: Arc<Settings>,
    is_counted: bool,
}

/// The worker can be dropped at any await point, because its runtime has ended. Without another worker, the waiting batches fail.
impl Drop for Worker {
    fn drop(&mut self) {
        let is_last = self.is_counted && self.queue.workers.fetch_sub(1, SeqCst) == 1;
        if let Some(mut inbox) = self.queue.inbox.try_lock().ok().filter(|_| is_last) {
            let left = std::iter::from_fn(|| inbox.try_recv().ok());
            fail(left, PostgresError::Ended, BackendError::not_done);
        }
    }
}

impl Worker {
    async fn work(mut self) {
        let mut kept: Option<Connection> = None;
        loop {
            let group = self.next_group().await;
            if !group.is_empty() {
                kept = match self.decide(group, kept.take()).await {
                    Some(connection) => self.sweep(connection).await,
                    None => None,
                };
                continue;
            }
            if let Some(connection) = kept.take() {
                connection.release();
            }
            self.queue.workers.fetch_sub(1, SeqCst);
            self.is_counted = false;
            // A batch that came in meanwhile has started no other worker.
            let is_empty = self.queue.sender.capacity() == MOST_WAITING;
            if is_empty || !self.queue.counts_one_more() {
                return;
            }
            self.is_counted = true;
        }
    }

    /// Returns the waiting batches. It returns none if none have come for a while. Only one worker at a time receives batches.
    async fn next_group(&self) -> Vec<WaitingBatch> {
        let mut inbox = self.queue.inbox.lock().await;
        let mut group = Vec::new();
        while group.is_empty() {
            let received = inbox.recv_many(&mut group, GROUP);
            if timeout(LINGER, received).await.is_err() {
                break;
            }
            // Callers that have left are not charged.
            group.retain(|one| !one.reply.is_closed());
        }
        group
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
            let error = match self.transact(&group, kept.take()).await {
                Ok((connection, outcomes)) => {
                    answer(group, outcomes);
                    return connection;
                }
                Err(TransactionError::NotDone(_, error)) if is_first && error.is_loss() => {
                    is_first = false;
                    group.retain(|one| !one.reply.is_closed());
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
        kept: Option<Connection>,
    ) -> Result<(Option<Connection>, Vec<BatchResult>), TransactionError> {
        let Settings {
            pool,
            statements,
            deadline,
        } = &*self.settings;
        let names = sorted_names(group);
        let mut connection = match kept {
            Some(connection) => connection,
            None => within(*deadline, Connection::acquire(pool))
                .await
                .map_err(|error| TransactionError::NotDone(None, error))?,
        };
        let rows = match within(*deadline, connection.lock(statements, &names, *deadline)).await {
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
        match within(*deadline, connection.run(&statements.commit(&changed))).await {
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
    let names = group.iter().flat_map(|request| &request.names);
    let mut names: Vec<_> = names.collect();
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
