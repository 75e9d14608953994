//! Groups of decisions: a queue of requests, and the tasks that decide all waiting requests in one transaction.

use std::{
    collections::VecDeque,
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
    time::{timeout, timeout_at},
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
    sql::StoredRow,
};

/// The most requests in one transaction.
const GROUP: usize = 512;

/// The most requests that wait. A longer queue is useless, because callers have deadlines.
const MOST_WAITING: usize = 4096;

/// The time for which a task without requests keeps its connection.
const LINGER: Duration = Duration::from_secs(1);

/// The additional time for which a bucket is kept if it is not decided by the database's clock.
const OTHER_CLOCK_MARGIN: u64 = 3600 * 1_000_000;

type Decided = Result<Outcome, BackendError>;

/// A batch whose caller waits.
pub(crate) struct Request {
    batch: OwnedBatch,
    /// The keys of its members.
    keys: Vec<Box<[u8]>>,
    reply: oneshot::Sender<Decided>,
}

impl Request {
    pub(crate) fn new(
        batch: OwnedBatch,
        keys: Vec<Box<[u8]>>,
    ) -> (Self, oneshot::Receiver<Decided>) {
        let (reply, outcome) = oneshot::channel();
        (Self { batch, keys, reply }, outcome)
    }
}

/// The waiting requests, and the tasks that decide them.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    wake: Notify,
    sweep: Mutex<Sweep>,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    workers: u32,
    /// The workers that have a connection and wait for requests.
    idle: u32,
}

impl Queue {
    /// Adds a request. It is decided even if its caller is not polled.
    pub(crate) fn push(
        self: &Arc<Self>,
        request: Request,
        settings: &Arc<Settings>,
    ) -> Result<(), BackendError> {
        let mut waiting = self.waiting.lock();
        if waiting.requests.len() >= MOST_WAITING {
            return Err(BackendError::not_done(PostgresError::Busy));
        }
        if waiting.idle == 0 && waiting.workers < CONNECTIONS {
            let runtime = Handle::try_current();
            let runtime = runtime.map_err(|_| BackendError::not_done(PostgresError::Ended))?;
            waiting.workers += 1;
            waiting.requests.push_back(request);
            drop(waiting);
            let worker = Worker {
                queue: Arc::clone(self),
                settings: Arc::clone(settings),
                standing: Standing::Busy,
            };
            runtime.spawn(worker.work());
        } else {
            let wakes = waiting.idle > 0;
            waiting.requests.push_back(request);
            drop(waiting);
            if wakes {
                self.wake.notify_one();
            }
        }
        Ok(())
    }
}

/// The state of a worker in the counts of its queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Busy,
    Idle,
    Ended,
}

/// A task that decides groups as long as there are requests.
struct Worker {
    queue: Arc<Queue>,
    settings: Arc<Settings>,
    standing: Standing,
}

/// The worker can be dropped at any await point, because its runtime has ended.
impl Drop for Worker {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting.lock();
        match self.standing {
            Standing::Busy => waiting.workers -= 1,
            Standing::Idle => {
                waiting.workers -= 1;
                waiting.idle -= 1;
            }
            Standing::Ended => {}
        }
        if waiting.workers == 0 {
            let requests = mem::take(&mut waiting.requests);
            drop(waiting);
            fail(requests, PostgresError::Ended, BackendError::not_done);
        }
    }
}

impl Worker {
    async fn work(mut self) {
        let mut kept = None;
        while let Some(group) = self.next_group(kept.is_some()).await {
            kept = match self.decide(group, kept.take()).await {
                Some(connection) => self.sweep(connection).await,
                None => None,
            };
        }
        if let Some(connection) = kept {
            connection.release();
        }
    }

    /// Returns the waiting requests. `None` if none have come for a while, or if there is no connection to keep for further ones.
    async fn next_group(&mut self, has_connection: bool) -> Option<Vec<Request>> {
        loop {
            let woken = {
                let mut waiting = self.queue.waiting.lock();
                while !waiting.requests.is_empty() {
                    let len = waiting.requests.len().min(GROUP);
                    let group = waiting.requests.drain(..len);
                    // Callers that have left are not charged.
                    let group: Vec<_> = group.filter(|one| !one.reply.is_closed()).collect();
                    if !group.is_empty() {
                        return Some(group);
                    }
                }
                if !has_connection {
                    // From here on, a request starts another worker.
                    waiting.workers -= 1;
                    self.standing = Standing::Ended;
                    return None;
                }
                waiting.idle += 1;
                self.standing = Standing::Idle;
                self.queue.wake.notified()
            };
            let is_woken = timeout(LINGER, woken).await.is_ok();
            let mut waiting = self.queue.waiting.lock();
            waiting.idle -= 1;
            self.standing = Standing::Busy;
            if !is_woken && waiting.requests.is_empty() {
                waiting.workers -= 1;
                self.standing = Standing::Ended;
                return None;
            }
        }
    }

    /// Decides a group in one transaction, and returns the connection if it can be used again.
    async fn decide(&self, group: Vec<Request>, kept: Option<Connection>) -> Option<Connection> {
        let keys = sorted_keys(&group);
        let (mut connection, rows) = match self.lock(&keys, kept).await {
            Ok(locked) => locked,
            Err((connection, error)) => {
                let kept = self.rolled_back(connection, &error).await;
                fail(group, error, BackendError::not_done);
                return kept;
            }
        };
        self.queue.sweep.lock().saw(&rows);
        let mut buckets: Vec<_> = rows
            .states
            .iter()
            .map(|state| Bucket::read(state))
            .collect();
        let outcomes = group.iter().map(|request| {
            let indexes = request.keys.iter();
            let indexes = indexes.map(|key| keys.binary_search(&&**key).unwrap_or_default());
            let indexes: Vec<_> = indexes.collect();
            let decide = |batch: &Batch<'_>| decide(batch, &indexes, &mut buckets, rows.now);
            request.batch.as_batch(decide)
        });
        let outcomes: Vec<_> = outcomes.collect();
        let changed = keys.iter().zip(&buckets);
        let changed: Vec<_> = changed
            .filter_map(|(key, bucket)| bucket.row(key))
            .collect();
        let committed = connection.commit(&self.settings.statements, &changed);
        let committed = timeout(self.settings.deadline, committed).await;
        let error = match committed.unwrap_or(Err(PostgresError::Late)) {
            Ok(()) => {
                answer(group, outcomes);
                return Some(connection);
            }
            Err(error) => error,
        };
        let is_certain = error.is_certain() || changed.is_empty();
        let kept = self.rolled_back(Some(connection), &error).await;
        if is_certain {
            fail(group, error, BackendError::not_done);
        } else {
            fail(group, error, BackendError::unavailable);
        }
        kept
    }

    /// Locks and reads rows. Nothing is stored yet, so it is tried once more if the connection is lost. The error comes with the
    /// connection, which may still be usable.
    async fn lock(
        &self,
        keys: &[&[u8]],
        mut kept: Option<Connection>,
    ) -> Result<(Connection, LockedRows), (Option<Connection>, PostgresError)> {
        let Settings {
            pool,
            statements,
            deadline,
        } = &*self.settings;
        let end = tokio::time::Instant::now() + *deadline;
        let locking = async {
            let mut has_failed = false;
            loop {
                let mut connection = match kept.take() {
                    Some(connection) => connection,
                    None => Connection::acquire(pool)
                        .await
                        .map_err(|error| (None, error))?,
                };
                match connection.lock(statements, keys, *deadline).await {
                    Ok(rows) => return Ok((connection, rows)),
                    Err(error) if error.leaves_connection() || has_failed => {
                        return Err((Some(connection), error));
                    }
                    Err(_) => has_failed = true,
                }
            }
        };
        let locked = timeout_at(end, locking).await;
        locked.unwrap_or(Err((None, PostgresError::Late)))
    }

    /// Ends a transaction that has failed, and returns its connection if that can be used again.
    async fn rolled_back(
        &self,
        connection: Option<Connection>,
        error: &PostgresError,
    ) -> Option<Connection> {
        let mut connection = connection.filter(|_| error.leaves_connection())?;
        let rolled_back = timeout(self.settings.deadline, connection.run("ROLLBACK")).await;
        matches!(rolled_back, Ok(Ok(_))).then_some(connection)
    }

    /// Deletes expired rows of a few pages, if that is due.
    async fn sweep(&self, mut connection: Connection) -> Option<Connection> {
        let Some((first, pages)) = self.queue.sweep.lock().next() else {
            return Some(connection);
        };
        let sweep = self.settings.statements.sweep(first, pages);
        let swept = timeout(self.settings.deadline, connection.run(&sweep)).await;
        match swept.unwrap_or(Err(PostgresError::Late)) {
            Ok(pages) => {
                self.queue.sweep.lock().pages = pages.unwrap_or_default();
                Some(connection)
            }
            Err(error) => error.leaves_connection().then_some(connection),
        }
    }
}

/// Returns the keys of a group in ascending order, in which all transactions lock them, each once.
fn sorted_keys(group: &[Request]) -> Vec<&[u8]> {
    let keys = group.iter().flat_map(|request| &request.keys);
    let mut keys: Vec<&[u8]> = keys.map(|key| &**key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// A bucket in a transaction.
struct Bucket {
    /// A stored state can be damaged.
    state: Result<Option<State>, StateError>,
    /// The instant at which the bucket expires by the database's clock, if it has changed.
    expires_at: Option<u64>,
}

impl Bucket {
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
fn decide(batch: &Batch<'_>, indexes: &[usize], buckets: &mut [Bucket], clock: u64) -> Decided {
    if let Some(error) = damage(indexes, buckets) {
        return Err(BackendError::undecidable(error));
    }
    let margin = match batch.now {
        Some(_) => OTHER_CLOCK_MARGIN,
        None => 0,
    };
    let states = indexes
        .iter()
        .map(|index| buckets[*index].state.clone().ok()?);
    let states: Vec<_> = states.collect();
    let now = batch.now.unwrap_or(Timestamp::from_micros(clock));
    let (outcome, changes) = batch.decide(now, states);
    for change in changes {
        let full_after = change.full_after.map_or(u64::MAX, |time| {
            u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
        });
        let expires_at = clock.saturating_add(full_after).saturating_add(margin);
        buckets[indexes[change.index]] = Bucket {
            state: Ok(change.state),
            // A `bigint` has no larger number.
            expires_at: Some(expires_at.min(i64::MAX.unsigned_abs())),
        };
    }
    outcome
}

fn damage(indexes: &[usize], buckets: &[Bucket]) -> Option<StateError> {
    let mut states = indexes.iter().map(|index| &buckets[*index].state);
    states.find_map(|state| state.as_ref().err().copied())
}

fn answer(group: Vec<Request>, outcomes: Vec<Decided>) {
    for (request, outcome) in group.into_iter().zip(outcomes) {
        // The caller may have left.
        let _ = request.reply.send(outcome);
    }
}

/// Answers all requests with one error.
fn fail(
    requests: impl IntoIterator<Item = Request>,
    error: PostgresError,
    kind: fn(Arc<PostgresError>) -> BackendError,
) {
    let error = Arc::new(error);
    for request in requests {
        let _ = request.reply.send(Err(kind(Arc::clone(&error))));
    }
}

/// The pages that are swept next. While many rows are new, more pages are swept.
struct Sweep {
    /// The pages of the table.
    pages: u64,
    next: u64,
    last: Instant,
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
        if self.last.elapsed() < Self::EVERY {
            return None;
        }
        self.last = Instant::now();
        let first = if self.next < self.pages { self.next } else { 0 };
        let pages = mem::take(&mut self.new_rows) / Self::NEW_ROWS_PER_PAGE;
        let pages = pages.clamp(Self::FEWEST_PAGES, Self::MOST_PAGES);
        self.next = first + pages;
        Some((first, pages))
    }
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            pages: 0,
            next: 0,
            last: Instant::now(),
            new_rows: 0,
        }
    }
}
