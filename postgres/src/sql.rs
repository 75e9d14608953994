//! The statements, as text. One message has several of them, and poolers do not keep the names of prepared ones.
//!
//! All values are hexadecimal digits or whole numbers, so nothing has to be escaped.

use std::{fmt::Write, time::Duration};

use crate::key::BucketName;

/// The microseconds of the database's clock, since the Unix epoch.
const CLOCK: &str = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";

/// The statements for a table.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    /// The name in quotes.
    pub(crate) table: String,
    pub(crate) is_durable: bool,
}

/// Returns the name of a table in quotes, in which it can have capitals or be a word of SQL. The name can begin with a schema.
pub(crate) fn quoted(name: &str) -> Option<String> {
    // The server would cut off a longer part.
    let is_valid = |part: &str| (1..=63).contains(&part.len()) && !part.contains(['"', '\'', '\0']);
    let is_name = name.split('.').count() <= 2 && name.split('.').all(is_valid);
    is_name.then(|| format!("\"{}\"", name.replace('.', "\".\"")))
}

/// A bucket as it is stored.
#[derive(Debug)]
pub(crate) struct StoredRow<'a> {
    pub(crate) key: &'a [u8],
    /// Empty for a bucket that is full.
    pub(crate) state: Vec<u8>,
    pub(crate) expires_at: u64,
}

impl Statements {
    /// A page is half full, so that a changed row stays on it, and no index has to change with it.
    pub(crate) fn create_table(&self) -> String {
        let kind = if self.is_durable { "" } else { "UNLOGGED " };
        let table = &self.table;
        format!(
            "CREATE {kind}TABLE IF NOT EXISTS {table} (key bytea PRIMARY KEY, state bytea NOT NULL DEFAULT '', \
             expires_at bigint NOT NULL DEFAULT 0, id bytea NOT NULL DEFAULT '') WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, \
             autovacuum_vacuum_cost_delay = 0);"
        )
    }

    /// Takes a lock first. Without it, two processes that create the table at the same time would both find none.
    pub(crate) fn create_table_once(&self) -> String {
        let create = self.create_table();
        format!("BEGIN; SELECT pg_advisory_xact_lock(7083127351); {create} COMMIT")
    }

    /// Returns 1 if the table is logged, and 0 if it is unlogged. It fails if the table cannot be written.
    pub(crate) fn check(&self) -> String {
        let table = &self.table;
        format!(
            "BEGIN READ WRITE; DELETE FROM {table} WHERE key = '' RETURNING state; \
             INSERT INTO {table} (key, id) VALUES ('', '') ON CONFLICT (key) DO UPDATE SET expires_at = 0; ROLLBACK; \
             SELECT (relpersistence = 'p')::int FROM pg_class WHERE oid = '{table}'::regclass"
        )
    }

    /// Begins a transaction, and locks and reads the rows of all keys in their order. Missing rows are created. Each row comes with its
    /// key, the time at which it was locked, and the number of the transaction. The time is in the form in which it is sent in binary,
    /// because the server needs longest for the expressions of a single row.
    pub(crate) fn begin(&self, buckets: &[&BucketName], deadline: Duration) -> String {
        let table = &self.table;
        let ms = deadline.as_millis();
        let mut text = String::with_capacity(500 + 120 * buckets.len());
        let _ = write!(
            text,
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {ms}; \
             SET LOCAL idle_in_transaction_session_timeout = {ms}; INSERT INTO {table} AS t (key, id) "
        );
        let keys = buckets.iter().map(|bucket| hex(&bucket.key));
        let ids = buckets.iter().map(|bucket| hex(&bucket.id));
        let keys = Column("bytea", keys.collect());
        let ids = Column("bytea", ids.collect());
        write_source(&mut text, &[keys, ids]);
        let _ = write!(
            text,
            " ON CONFLICT (key) DO UPDATE SET expires_at = t.expires_at RETURNING key, state, \
             timestamptz_send(clock_timestamp()), pg_current_xact_id()"
        );
        text
    }

    /// Stores rows, and commits. It is an `INSERT`, because the plan of an `UPDATE` could read the whole table.
    pub(crate) fn commit(&self, rows: &[StoredRow<'_>]) -> String {
        let table = &self.table;
        let mut text = String::with_capacity(200 + 160 * rows.len());
        if !rows.is_empty() {
            let _ = write!(text, "INSERT INTO {table} (key, state, expires_at) ");
            let keys = rows.iter().map(|row| hex(row.key));
            let states = rows.iter().map(|row| hex(&row.state));
            let ends = rows.iter().map(|row| row.expires_at.to_string());
            let keys = Column("bytea", keys.collect());
            let states = Column("bytea", states.collect());
            let ends = Column("bigint", ends.collect());
            write_source(&mut text, &[keys, states, ends]);
            text.push_str(
                " ON CONFLICT (key) DO UPDATE SET state = excluded.state, expires_at = excluded.expires_at; ",
            );
        }
        text.push_str("COMMIT");
        text
    }

    /// Returns 1 if a transaction has been committed, and 0 if it was rolled back.
    pub(crate) fn outcome_of(transaction: u64) -> String {
        format!(
            "SELECT CASE pg_xact_status('{transaction}') WHEN 'committed' THEN 1 WHEN 'aborted' THEN 0 END"
        )
    }

    /// Deletes the rows of some pages that have expired for a second, and returns the number of pages. It waits for no lock.
    pub(crate) fn sweep(&self, first: u64, pages: u64) -> String {
        let table = &self.table;
        let end = first + pages;
        format!(
            "DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {table} WHERE ctid >= '({first},0)' \
             AND ctid < '({end},0)' AND expires_at < {CLOCK} - 1000000 FOR UPDATE SKIP LOCKED)); \
             SELECT pg_relation_size('{table}') / current_setting('block_size')::bigint"
        )
    }
}

/// A column of rows that are inserted: its type, and its values as text.
struct Column(&'static str, Vec<String>);

/// Writes where the rows of an insertion come from: a single row from its values, and several from an array for each column. The
/// server reads both faster than the other form.
fn write_source(text: &mut String, columns: &[Column]) {
    let is_single = columns.iter().all(|Column(_, values)| values.len() == 1);
    text.push_str(if is_single {
        "VALUES ("
    } else {
        "SELECT * FROM unnest("
    });
    for (index, Column(kind, values)) in columns.iter().enumerate() {
        text.push_str(if index == 0 { "'" } else { ",'" });
        if is_single {
            text.push_str(&values[0]);
            text.push('\'');
        } else {
            // In an array, a backslash is escaped by another one.
            let values = values.join("\",\"").replace('\\', "\\\\");
            let _ = write!(text, "{{\"{values}\"}}'::{kind}[]");
        }
    }
    text.push(')');
}

/// Returns bytes as the server reads them.
fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)].into());
        text.push(DIGITS[usize::from(byte & 15)].into());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_or_refused() {
        let long = "x".repeat(63);
        for (name, expected) in [
            ("tollgate", "\"tollgate\""),
            ("Limits.Orders; ä", "\"Limits\".\"Orders; ä\""),
            (&long, &format!("\"{long}\"")),
        ] {
            assert_eq!(quoted(name).as_deref(), Some(expected));
        }
        for name in [
            "",
            "a.b.c",
            "a.",
            ".a",
            "\"a\"",
            "a'",
            "a\0",
            &format!("{long}x"),
        ] {
            assert_eq!(quoted(name), None, "{name}");
        }
    }
}
