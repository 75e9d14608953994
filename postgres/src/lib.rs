#![doc = include_str!("../README.md")]

mod connection;
mod error;
mod group;
mod key;
mod sql;

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use sqlx::{
    ConnectOptions, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::{runtime::Handle, sync::oneshot};
use tollgate::backend::{
    Backend, BackendError, async_trait,
    custom::{Batch, Outcome, OwnedBatch},
};

pub use self::error::PostgresError;
use self::{
    connection::Connection,
    group::{Queue, WaitingBatch},
    key::BucketName,
    sql::Statements,
};

/// The most transactions at once. More would only wait for each other's rows.
const CONNECTIONS: u32 = 2;

/// Keeps buckets in a table of PostgreSQL.
///
/// The [crate docs](crate) have an example.
///
/// - **Grouped decisions.** Decisions that arrive during a transaction are collected for the next one, on at most two connections.
///   Those about the same bucket share one connection. A decision whose caller has left by then is not made.
/// - **Exact.** A transaction locks the rows of all its buckets in one order, so processes neither deadlock nor admit too much. The
///   database's clock decides.
/// - **Failures.** A transaction takes at most the [deadline](Self::deadline), on the server too, so a process that stops loses its
///   locks. Wrap the backend in a [`FailurePolicy`](tollgate::backend), which decides when the server does not.
/// - **Expiry.** Each process deletes rows that have expired, a few pages at a time. No other cleanup is needed.
///
/// It needs a tokio runtime with a timer and I/O. Without one, decisions are errors.
pub struct PostgresBackend {
    settings: Arc<Settings>,
    hides_ids: bool,
    queue: Arc<Queue>,
}

/// The settings of a transaction.
#[derive(Clone)]
struct Settings {
    pool: PgPool,
    statements: Statements,
    deadline: Duration,
}

impl PostgresBackend {
    /// Creates a backend with at most two connections of its own to the server of a URL such as
    /// `postgres://user:password@localhost/database?sslmode=verify-full`. It connects when it first decides.
    ///
    /// # Errors
    ///
    /// If the text is not such a URL, or outside of a tokio runtime.
    pub fn connect(url: &str) -> Result<Self, PostgresError> {
        let is_of_postgres = ["postgres://", "postgresql://"];
        let options = PgConnectOptions::from_str(url).ok();
        let options = options
            .filter(|_| is_of_postgres.iter().any(|scheme| url.starts_with(scheme)))
            .ok_or(PostgresError::Url)?;
        // Without one, the pool would panic.
        Handle::try_current().map_err(|_| PostgresError::Ended)?;
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS);
        Ok(Self::new(
            pool.connect_lazy_with(options.disable_statement_logging()),
        ))
    }

    /// Creates a backend that uses at most two connections of the service's pool at a time.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        let settings = Settings {
            pool,
            statements: Statements {
                table: "\"tollgate\"".to_owned(),
                is_durable: false,
            },
            deadline: Duration::from_millis(50),
        };
        Self {
            settings: Arc::new(settings),
            hides_ids: false,
            queue: Arc::default(),
        }
    }

    /// Keeps buckets in a table that survives a crash of the server. Each transaction then waits for the disk.
    ///
    /// An unlogged table, which is the default, is empty after a crash, and each crash admits at most one burst more.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.settings_mut().statements.is_durable = true;
        self
    }

    /// Sets the name of the table: `table` or `schema.table`, as they are in the database, with capitals and without quotes. The
    /// default is `tollgate`, in the first schema of the search path that has it.
    ///
    /// # Panics
    ///
    /// If it is neither, or if a part is empty, is longer than 63 bytes, or has a quote or a zero byte.
    #[must_use]
    #[track_caller]
    pub fn table(mut self, name: &str) -> Self {
        let quoted = sql::quoted(name);
        self.settings_mut().statements.table = quoted.unwrap_or_else(|| {
            panic!("`{name}` cannot name a table: use `table` or `schema.table`, each of 1 to 63 bytes and without quotes")
        });
        self
    }

    /// Stores no readable ids. By default, one column holds the ids for people to read, except
    /// [secrets](tollgate::id::Id::secret) and ids of more than 128 bytes. Buckets are found by hashes in either case.
    #[must_use]
    pub fn hash_ids(mut self) -> Self {
        self.hides_ids = true;
        self
    }

    /// Sets the most time that a transaction takes, and for which it waits for others. Use that of the failure policy. The default
    /// is 50 ms, and at least 1 ms counts. A decision that needs a new connection waits for it for up to two seconds more.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings_mut().deadline = deadline.max(Duration::from_millis(1));
        self
    }

    /// Returns the statement that creates the table, for migrations.
    #[must_use]
    pub fn table_statement(&self) -> String {
        self.settings.statements.create_table()
    }

    /// Creates the table if it is missing. Several processes can do this at once.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or refuses.
    pub async fn create_table(&self) -> Result<(), PostgresError> {
        let mut connection = Connection::acquire(&self.settings.pool).await?;
        let create = self.settings.statements.create_table_once();
        connection.run(&create).await?;
        connection.release();
        Ok(())
    }

    /// Checks, within `timeout`, that the server can be reached and can decide: that it is not a standby, and has a table of the
    /// right kind that may be written. A process that has to start during an outage logs the error and goes on.
    ///
    /// # Errors
    ///
    /// If the server cannot decide, with what to change.
    pub async fn connected(&self, timeout: Duration) -> Result<(), PostgresError> {
        let check = async {
            let statements = &self.settings.statements;
            let mut connection = Connection::acquire(&self.settings.pool).await?;
            let is_logged = connection.run(&statements.check()).await?;
            connection.release();
            if is_logged == Some(u64::from(statements.is_durable)) {
                Ok(())
            } else {
                Err(PostgresError::OtherTable(statements.table.clone()))
            }
        };
        let checked = tokio::time::timeout(timeout, check).await;
        checked.unwrap_or(Err(PostgresError::Late))
    }

    fn settings_mut(&mut self) -> &mut Settings {
        Arc::make_mut(&mut self.settings)
    }
}

#[async_trait]
impl Backend for PostgresBackend {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        if batch.members.is_empty() {
            return batch.decide(batch.now.unwrap_or_default(), []).0;
        }
        let name = |member| BucketName::new(member, self.hides_ids);
        let names: Arc<[_]> = batch.members.iter().map(name).collect();
        let batch = OwnedBatch::from(batch);
        let (reply, outcome) = oneshot::channel();
        let waiting = WaitingBatch {
            batch: batch.clone(),
            names: Arc::clone(&names),
            reply,
        };
        self.queue.push(waiting, &self.settings)?;
        // It is dropped without an answer only if the runtime of the transaction has ended.
        let answer = outcome.await;
        answer.unwrap_or_else(|_| Err(BackendError::unavailable(PostgresError::Ended)))
    }
}

impl fmt::Debug for PostgresBackend {
    /// Leaves out the pool, whose options can contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresBackend")
            .field("statements", &self.settings.statements)
            .field("deadline", &self.settings.deadline)
            .finish_non_exhaustive()
    }
}

/// The guide, whose code is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/postgres.md")]
struct Guide;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn readme_has_the_statement_that_creates_the_table() {
        let backend = PostgresBackend::connect("postgres://localhost").unwrap();
        let readme: Vec<_> = include_str!("../README.md").split_whitespace().collect();
        let statement = backend.table_statement();
        let words: Vec<_> = statement.split_whitespace().collect();
        assert!(
            readme.windows(words.len()).any(|part| part == words),
            "{statement}"
        );
        let durable = backend.durable().table("a.b").table_statement();
        assert!(
            durable.starts_with("CREATE TABLE IF NOT EXISTS \"a\".\"b\" ("),
            "{durable}"
        );
    }

    #[test]
    fn other_texts_are_no_addresses() {
        let outside = PostgresBackend::connect("postgres://localhost").unwrap_err();
        assert!(matches!(outside, PostgresError::Ended), "{outside}");
        for url in ["redis://localhost", "localhost", ""] {
            let error = PostgresBackend::connect(url).unwrap_err().to_string();
            assert!(error.contains("use `postgres://"), "{url}: {error}");
        }
    }
}
