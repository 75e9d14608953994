//! The lines of a log that cannot be read.

use std::fmt;

use thiserror::Error;

/// The number of lines that are shown.
const SHOWN: usize = 5;

/// The length of what is shown of a line, in bytes.
const EXCERPT: usize = 120;

/// Counts the lines that cannot be read, and remembers the first ones.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    count: u64,
    first: Vec<String>,
}

/// The reason why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Reason {
    #[error("it is longer than 64 KiB")]
    TooLong,
    #[error("it is neither in Common Log Format nor JSON")]
    Form,
    #[error("it has no time: name its field with --time")]
    NoTime,
    #[error("its time cannot be read")]
    Time,
    #[error("its time is before 1970")]
    BeforeEpoch,
    #[error("its time is after 2112")]
    TooLate,
    #[error("it has no client address: name its field with --address, or count by another --key")]
    NoAddress,
}

impl Unreadable {
    pub(super) fn add(&mut self, file: &str, line: u64, reason: Reason, bytes: &[u8]) {
        self.count += 1;
        if self.first.len() < SHOWN {
            let start = &bytes[..bytes.len().min(EXCERPT)];
            let cut = if start.len() < bytes.len() { "…" } else { "" };
            let text = String::from_utf8_lossy(start);
            let text = text.escape_debug();
            self.first
                .push(format!("{file}:{line}: {reason}: {text}{cut}"));
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.truncate(SHOWN);
    }
}

/// The count, and the first of the lines; nothing if all could be read.
impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 => return Ok(()),
            1 => writeln!(f, "1 line could not be read:")?,
            count => writeln!(f, "{count} lines could not be read. The first ones:")?,
        }
        self.first
            .iter()
            .try_for_each(|line| writeln!(f, "  {line}"))
    }
}
