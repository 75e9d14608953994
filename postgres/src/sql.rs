//! The statements, as text: a message has several of them, and no poolers keep their names.
//!
//! Values are hexadecimal digits and whole numbers alone, so nothing has to be escaped.

use std::{fmt, fmt::Write, time::Duration};

/// The microseconds of the database's clock.
const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

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
             expires_at bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, \
             autovacuum_vacuum_cost_delay = 0);"
        )
    }

    /// Two processes that create a table at the same time would both find none.
    pub(crate) fn create_table_once(&self) -> String {
        let create = self.create_table();
        format!("BEGIN; SELECT pg_advisory_xact_lock(7083127351); {create} COMMIT")
    }

    /// Returns 1 if the table is logged, and 0 if it is unlogged. It fails if the table cannot be written.
    pub(crate) fn check(&self) -> String {
        let table = &self.table;
        format!(
            "BEGIN READ WRITE; DELETE FROM {table} WHERE key = '' RETURNING state; \
             INSERT INTO {table} (key) VALUES ('') ON CONFLICT (key) DO UPDATE SET expires_at = 0; ROLLBACK; \
             SELECT (relpersistence = 'p')::int FROM pg_class WHERE oid = '{table}'::regclass"
        )
    }

    /// Begins a transaction, and locks and reads the rows of all keys in their order. Missing rows are made. Each row comes with its
    /// key, the time at which it was locked, and the number of the transaction.
    pub(crate) fn begin(&self, keys: &[&[u8]], deadline: Duration) -> String {
        let table = &self.table;
        let ms = deadline.as_millis();
        let mut text = String::with_capacity(500 + 80 * keys.len());
        let _ = write!(
            text,
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL statement_timeout = {ms}; \
             SET LOCAL idle_in_transaction_session_timeout = {ms}; INSERT INTO {table} AS t (key) SELECT unnest('"
        );
        write_array(&mut text, keys.iter().map(|key| Bytea(key)));
        let _ = write!(
            text,
            "'::bytea[]) ON CONFLICT (key) DO UPDATE SET expires_at = t.expires_at RETURNING key, state, {CLOCK}, pg_current_xact_id()"
        );
        text
    }

    /// Stores rows, and commits. No plan reads the whole table for it, as one for `UPDATE` could.
    pub(crate) fn commit(&self, rows: &[StoredRow<'_>]) -> String {
        let table = &self.table;
        let mut text = String::with_capacity(200 + 160 * rows.len());
        if !rows.is_empty() {
            let _ = write!(
                text,
                "INSERT INTO {table} (key, state, expires_at) SELECT * FROM unnest('"
            );
            write_array(&mut text, rows.iter().map(|row| Bytea(row.key)));
            text.push_str("'::bytea[], '");
            write_array(&mut text, rows.iter().map(|row| Bytea(&row.state)));
            text.push_str("'::bytea[], '");
            write_array(&mut text, rows.iter().map(|row| row.expires_at));
            text.push_str(
                "'::bigint[]) ON CONFLICT (key) DO UPDATE SET state = excluded.state, \
                 expires_at = excluded.expires_at; ",
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

fn write_array<T: fmt::Display>(text: &mut String, values: impl Iterator<Item = T>) {
    text.push('{');
    for (index, value) in values.enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{value}");
    }
    text.push('}');
}

/// An element of an array of bytes. Its backslash is escaped by another one.
struct Bytea<'a>(&'a [u8]);

impl fmt::Display for Bytea<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        f.write_str("\"\\\\x")?;
        for chunk in self.0.chunks(32) {
            let mut text = [0; 64];
            for (pair, byte) in text.chunks_mut(2).zip(chunk) {
                pair[0] = DIGITS[usize::from(byte >> 4)];
                pair[1] = DIGITS[usize::from(byte & 15)];
            }
            let digits = std::str::from_utf8(&text[..2 * chunk.len()]);
            f.write_str(digits.unwrap_or_default())?;
        }
        f.write_str("\"")
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
        let text = Bytea(&bytes).to_string();
        let text = text
            .strip_prefix("\"\\")
            .unwrap()
            .strip_suffix('"')
            .unwrap();
        assert_eq!(unhex(text.as_bytes()), Some(bytes));
        for text in ["", "00", "\\x0", "\\x0G"] {
            assert_eq!(unhex(text.as_bytes()), None, "{text}");
        }
    }
}
