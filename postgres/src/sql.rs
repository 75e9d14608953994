//! The statements, as text. One message has several of them, and poolers do not keep the names of prepared ones.
//!
//! All values are hexadecimal digits or whole numbers, so nothing has to be escaped.

use std::{fmt, fmt::Write, time::Duration};

use crate::key::BucketName;

/// The microseconds of the database's clock. A double has all of them, and takes a tenth of the time of a `numeric`.
const CLOCK: &str = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";

/// The statements for a table.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    pub(crate) table: String,
    pub(crate) is_durable: bool,
}

impl Default for Statements {
    fn default() -> Self {
        Self {
            table: "tollgate".to_owned(),
            is_durable: false,
        }
    }
}

/// Returns whether a text is the name of a table that needs no quotes.
pub(crate) fn is_name(text: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && word.len() <= 63
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    text.split('.').count() <= 2 && text.split('.').all(is_word)
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
    /// key, the time at which it was locked, and the number of the transaction.
    pub(crate) fn begin(&self, buckets: &[&BucketName], deadline: Duration) -> String {
        let table = &self.table;
        let ms = deadline.as_millis();
        let mut text = String::with_capacity(500 + 120 * buckets.len());
        let _ = write!(
            text,
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {ms}; \
             SET LOCAL idle_in_transaction_session_timeout = {ms}; INSERT INTO {table} AS t (key, id) "
        );
        let keys = buckets.iter().map(|bucket| Value::Bytes(&bucket.key));
        let ids = buckets.iter().map(|bucket| Value::Bytes(&bucket.id));
        write_source(&mut text, &[keys.collect(), ids.collect()]);
        let _ = write!(
            text,
            " ON CONFLICT (key) DO UPDATE SET expires_at = t.expires_at RETURNING key, state, {CLOCK}, pg_current_xact_id()"
        );
        text
    }

    /// Stores rows, and commits. It is an `INSERT`, because the plan of an `UPDATE` could read the whole table.
    pub(crate) fn commit(&self, rows: &[StoredRow<'_>]) -> String {
        let table = &self.table;
        let mut text = String::with_capacity(200 + 160 * rows.len());
        if !rows.is_empty() {
            let _ = write!(text, "INSERT INTO {table} (key, state, expires_at) ");
            let keys = rows.iter().map(|row| Value::Bytes(row.key));
            let states = rows.iter().map(|row| Value::Bytes(&row.state));
            let ends = rows.iter().map(|row| Value::Number(row.expires_at));
            write_source(
                &mut text,
                &[keys.collect(), states.collect(), ends.collect()],
            );
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

/// A value of a column.
#[derive(Clone, Copy)]
enum Value<'a> {
    Bytes(&'a [u8]),
    Number(u64),
}

/// Writes where the rows of an insertion come from: a single row from its values, and several from an array for each column, which
/// the server reads faster.
fn write_source(text: &mut String, columns: &[Vec<Value<'_>>]) {
    let is_single = columns.iter().all(|column| column.len() == 1);
    text.push_str(if is_single {
        "VALUES ("
    } else {
        "SELECT * FROM unnest("
    });
    for (index, column) in columns.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "," });
        if is_single {
            write_literal(text, column[0]);
        } else {
            write_array(text, column);
        }
    }
    text.push(')');
}

fn write_literal(text: &mut String, value: Value<'_>) {
    let _ = match value {
        Value::Bytes(bytes) => write!(text, "'\\x{}'", Hex(bytes)),
        Value::Number(number) => write!(text, "{number}"),
    };
}

fn write_array(text: &mut String, column: &[Value<'_>]) {
    text.push_str("'{");
    for (index, value) in column.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "," });
        let _ = match value {
            // The backslash is escaped by another one.
            Value::Bytes(bytes) => write!(text, "\"\\\\x{}\"", Hex(bytes)),
            Value::Number(number) => write!(text, "{number}"),
        };
    }
    text.push_str(match column.first() {
        Some(Value::Number(_)) => "}'::bigint[]",
        _ => "}'::bytea[]",
    });
}

/// Hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for chunk in self.0.chunks(32) {
            let mut text = [0; 64];
            for (pair, byte) in text.chunks_mut(2).zip(chunk) {
                pair[0] = DIGITS[usize::from(byte >> 4)];
                pair[1] = DIGITS[usize::from(byte & 15)];
            }
            let digits = std::str::from_utf8(&text[..2 * chunk.len()]);
            f.write_str(digits.unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Reads bytes that the server has written as `\x` and digits.
pub(crate) fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_prefix(b"\\x")?;
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| Some(value(pair[0])? << 4 | value(*pair.get(1)?)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_no_quotes() {
        for name in ["tollgate", "limits.buckets_2", "_a"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "", "a.b.c", "Tollgate", "a b", "a;", "1a", "a.", "\"a\"", "ä",
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn bytes_are_read_as_they_were_written() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = format!("\\x{}", Hex(&bytes));
        assert_eq!(unhex(text.as_bytes()), Some(bytes));
        for text in ["", "00", "\\x0", "\\x0G"] {
            assert_eq!(unhex(text.as_bytes()), None, "{text}");
        }
    }
}
