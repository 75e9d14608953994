//! A connection on which transactions are made.

use std::{future::pending, time::Duration};

use sqlx::{
    ConnectOptions, Executor, PgPool, Postgres, Row, pool::PoolConnection, postgres::PgRow,
};
use tokio::time::sleep;

use crate::{error::PostgresError, key::BucketName, sql::Statements};

/// The begin of times that the server sends, in microseconds since the Unix epoch.
const YEAR_2000: u64 = 946_684_800_000_000;

/// The time for which a pool can take to connect before the reason is looked for.
const PATIENCE: Duration = Duration::from_millis(10);

/// A connection of a pool. One that is not released is closed, because a transaction can be open on it.
pub(crate) struct Connection(Option<PoolConnection<Postgres>>);

/// Rows that a transaction has locked.
#[derive(Default)]
pub(crate) struct LockedRows {
    /// The states in the order of the buckets. They are empty for new rows.
    pub(crate) states: Vec<Vec<u8>>,
    /// The time after the last lock.
    pub(crate) now: u64,
    /// The number of the transaction.
    pub(crate) transaction: u64,
}

impl Connection {
    /// Takes a connection of a pool. While a server refuses connections, the pool tries again and does not say why. So if it takes
    /// long, one attempt beside the pool finds the reason. It counts only if the server cannot be reached: a server that has no
    /// connection left for the attempt may still have one for the pool.
    pub(crate) async fn acquire(pool: &PgPool) -> Result<Self, PostgresError> {
        let options = pool.connect_options();
        let attempt = async {
            sleep(PATIENCE).await;
            if let Err(error @ sqlx::Error::Io(_)) = options.connect().await {
                return error;
            }
            pending().await
        };
        let acquired = tokio::select! {
            acquired = pool.acquire() => acquired,
            error = attempt => Err(error),
        };
        let acquired = acquired.map_err(|error| PostgresError::of_connecting(error, &options))?;
        Ok(Self(Some(acquired)))
    }

    /// Begins a transaction, and locks the rows of buckets, whose keys are in ascending order.
    pub(crate) async fn lock(
        &mut self,
        statements: &Statements,
        buckets: &[&BucketName],
        deadline: Duration,
    ) -> Result<LockedRows, PostgresError> {
        let rows = self.rows(&statements.begin(buckets, deadline)).await?;
        read_rows(&rows, buckets).ok_or(PostgresError::Garbled)
    }

    /// Runs statements, and returns the number in their last row, if there is one.
    pub(crate) async fn run(&mut self, text: &str) -> Result<Option<u64>, PostgresError> {
        let rows = self.rows(text).await?;
        Ok(rows.last().and_then(|row| number(row, 0)))
    }

    /// Gives the connection back to its pool.
    pub(crate) fn release(mut self) {
        drop(self.0.take());
    }

    async fn rows(&mut self, text: &str) -> Result<Vec<PgRow>, PostgresError> {
        let connection = self.0.as_deref_mut().ok_or(PostgresError::Ended)?;
        let rows = connection.fetch_all(sqlx::raw_sql(text)).await;
        rows.map_err(PostgresError::of_statement)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(connection) = &mut self.0 {
            connection.close_on_drop();
        }
    }
}

/// Reads the rows of all buckets, whose keys are in ascending order. The server can return them in any order.
fn read_rows(rows: &[PgRow], buckets: &[&BucketName]) -> Option<LockedRows> {
    let mut locked = LockedRows::default();
    let mut read = Vec::with_capacity(rows.len());
    for row in rows {
        let key: Vec<u8> = row.try_get(0).ok()?;
        let state: Vec<u8> = row.try_get(1).ok()?;
        read.push((key, state));
        let time: Vec<u8> = row.try_get(2).ok()?;
        let time = u64::from_be_bytes(time.try_into().ok()?);
        locked.now = locked.now.max(time.checked_add(YEAR_2000)?);
        locked.transaction = number(row, 3)?;
    }
    read.sort_unstable();
    let keys = read.iter().map(|(key, _)| &**key);
    let has_all = keys.eq(buckets.iter().map(|bucket| &*bucket.key));
    locked.states = read.into_iter().map(|(_, state)| state).collect();
    has_all.then_some(locked)
}

/// Returns a whole number of any type. It came as text.
fn number(row: &PgRow, column: usize) -> Option<u64> {
    let number: i64 = row.try_get_unchecked(column).ok()?;
    number.try_into().ok()
}
