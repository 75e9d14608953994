//! A connection on which transactions are made.

use std::{collections::HashMap, mem, time::Duration};

use sqlx::{
    Executor, PgPool, Postgres, Row, ValueRef,
    pool::PoolConnection,
    postgres::{PgRow, PgValueFormat, PgValueRef},
};

use crate::{
    error::PostgresError,
    key::BucketName,
    sql::{Statements, unhex},
};

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
    pub(crate) async fn acquire(pool: &PgPool) -> Result<Self, PostgresError> {
        let connection = pool.acquire().await;
        connection
            .map(|connection| Self(Some(connection)))
            .map_err(|error| match PostgresError::of_statement(error) {
                PostgresError::Lost(error) => PostgresError::Unreachable(error),
                refused => refused,
            })
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
        Ok(rows.last().and_then(|row| number(&value(row, 0)?)))
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

/// Reads the rows of all buckets. The server can return them in any order.
fn read_rows(rows: &[PgRow], buckets: &[&BucketName]) -> Option<LockedRows> {
    let mut locked = LockedRows::default();
    let mut read = Vec::with_capacity(rows.len());
    for row in rows {
        let key = unhex(value(row, 0)?.as_bytes().ok()?)?;
        let state = unhex(value(row, 1)?.as_bytes().ok()?)?;
        locked.now = locked.now.max(number(&value(row, 2)?)?);
        locked.transaction = number(&value(row, 3)?)?;
        read.push((key, state));
    }
    let is_ordered = read
        .iter()
        .map(|(key, _)| &**key)
        .eq(buckets.iter().map(|bucket| &*bucket.key));
    locked.states = if is_ordered {
        read.into_iter().map(|(_, state)| state).collect()
    } else {
        let mut by_key: HashMap<_, _> = read.into_iter().collect();
        let states = buckets.iter();
        let states = states.map(|bucket| by_key.get_mut(&*bucket.key).map(mem::take));
        states.collect::<Option<_>>()?
    };
    Some(locked)
}

/// Returns a column of a row that came as text.
fn value(row: &PgRow, column: usize) -> Option<PgValueRef<'_>> {
    let value = row.try_get_raw(column).ok()?;
    let is_text = value.format() == PgValueFormat::Text && !value.is_null();
    is_text.then_some(value)
}

fn number(value: &PgValueRef<'_>) -> Option<u64> {
    value.as_str().ok()?.parse().ok()
}
