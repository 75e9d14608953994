//! Decisions that travel together: a queue of requests, and the tasks that decide all that wait in one transaction.

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
    sql::{Statements, StoredRow},
};

/// The most requests in one transaction.
const GROUP: usize = 512;

/// The most requests that wait. A longer queue is useless, because callers have deadlines.
const MOST_WAITING: usize = 4096;

/// For how long a task without requests keeps its connection.
const LINGER: Duration = Duration::from_secs(1);

/// The pause before the outcome of a transaction is looked up again.
const LOOK_UP_PAUSE: Duration = Duration::from_millis(1);

/// How much longer a bucket is kept whose time is not that of the database.
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

/// The requests that wait, and who decides them.
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
    /// Adds a request, which is decided whether its caller is polled or not.
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

/// What a worker counts as in its queue.
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

/// Its runtime can end at any await point.
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

    /// Returns the requests that wait; `None` if none has come for a while, or if there is no connection to keep for more.
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

    /// Decides a group, and returns the connection if it is in order. If the connection is lost and nothing is stored, the group is
    /// decided once more on a fresh one: a kept connection can have been lost long ago.
    async fn decide(
        &self,
        mut group: Vec<Request>,
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
                    group.retain(|request| !request.reply.is_closed());
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

    /// Decides a group in one transaction. Returns the connection if it is in order, and the outcomes.
    async fn transact(
        &self,
        group: &[Request],
        kept: Option<Connection>,
    ) -> Result<(Option<Connection>, Vec<Decided>), TransactionError> {
        let Settings {
            pool,
            statements,
            deadline,
        } = &*self.settings;
        let keys = sorted_keys(group);
        let mut connection = match kept {
            Some(connection) => connection,
            None => within(*deadline, Connection::acquire(pool))
                .await
                .map_err(|error| TransactionError::NotDone(None, error))?,
        };
        let rows = match within(*deadline, connection.lock(statements, &keys, *deadline)).await {
            Ok(rows) => rows,
            Err(error) => return Err(self.rolled_back(connection, error).await),
        };
        self.queue.sweep.lock().saw(&rows);
        let mut buckets: Vec<_> = rows
            .states
            .iter()
            .map(|state| Bucket::read(state))
            .collect();
        let outcomes = group.iter().map(|request| {
            let places = request.keys.iter();
            let places = places.map(|key| keys.binary_search(&&**key).unwrap_or_default());
            let places: Vec<_> = places.collect();
            let decide = |batch: &Batch<'_>| decide(batch, &places, &mut buckets, rows.now);
            request.batch.as_batch(decide)
        });
        let outcomes: Vec<_> = outcomes.collect();
        let changed = keys.iter().zip(&buckets);
        let changed: Vec<_> = changed
            .filter_map(|(key, bucket)| bucket.row(key))
            .collect();
        match within(*deadline, connection.commit(statements, &changed)).await {
            Ok(()) => Ok((Some(connection), outcomes)),
            // What is answered does not depend on a transaction that has changed nothing.
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

    /// Deletes expired rows of a few pages, if it is time.
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
    /// Nothing was stored. The connection is in order.
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
    /// When it expires by the database's clock, if it has changed.
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

/// Decides a batch by the buckets at some places, and changes them. `clock` is the time of the database.
fn decide(batch: &Batch<'_>, places: &[usize], buckets: &mut [Bucket], clock: u64) -> Decided {
    if let Some(error) = damage(places, buckets) {
        return Err(BackendError::undecidable(error));
    }
    let margin = match batch.now {
        Some(_) => OTHER_CLOCK_MARGIN,
        None => 0,
    };
    let states = places
        .iter()
        .map(|place| buckets[*place].state.clone().ok()?);
    let states: Vec<_> = states.collect();
    let now = batch.now.unwrap_or(Timestamp::from_micros(clock));
    let (outcome, changes) = batch.decide(now, states);
    for change in changes {
        let full_after = change.full_after.map_or(u64::MAX, |time| {
            u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
        });
        let expires_at = clock.saturating_add(full_after).saturating_add(margin);
        buckets[places[change.index]] = Bucket {
            state: Ok(change.state),
            // A `bigint` has no larger number.
            expires_at: Some(expires_at.min(i64::MAX.unsigned_abs())),
        };
    }
    outcome
}

fn damage(places: &[usize], buckets: &[Bucket]) -> Option<StateError> {
    let mut states = places.iter().map(|place| &buckets[*place].state);
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

/// Which pages are swept next: more of them while many rows are new.
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

    /// Returns the first page and the number of pages, if it is time.
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
