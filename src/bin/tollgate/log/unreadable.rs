//! The lines of a log that cannot be read.

use std::fmt;

use thiserror::Error;

use crate::output::shown;

/// The number of lines that are shown.
const SHOWN: usize = 5;

/// The length of what is shown of a line, in bytes.
const EXCERPT: usize = 120;

/// The lines that cannot be read: their number, and the first ones.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    pub(crate) count: u64,
    first: Vec<(Reason, String)>,
}

/// The reason why a line cannot be read, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Reason {
    #[error("it is longer than 64 KiB: cut its longest field")]
    TooLong,
    #[error(
        "it is in no known format: use Common Log Format, JSON lines, a W3C extended log with its `#Fields:`, or the log of \
         an AWS load balancer"
    )]
    Form,
    #[error("it has no time: name its field with --time")]
    NoTime,
    #[error("its time cannot be read: write it as in RFC 3339, or name another field with --time")]
    Time,
    #[error("its time is before 1970: name another field with --time")]
    BeforeEpoch,
    #[error("its time is after 2112: name another field with --time")]
    TooLate,
    #[error("it has no client address: name its field with --address, or count by another --key")]
    NoAddress,
    #[error("its address is a list: give the number of your proxies with --hops")]
    List,
    #[error("its list has fewer addresses than --hops: give the number of your proxies")]
    FewHops,
}

impl Unreadable {
    pub(super) fn add(&mut self, file: &str, line: u64, reason: Reason, bytes: &[u8]) {
        self.count += 1;
        if self.first.len() < SHOWN {
            let start = &bytes[..bytes.len().min(EXCERPT)];
            let cut = if start.len() < bytes.len() { "…" } else { "" };
            let text = shown(&String::from_utf8_lossy(start));
            let text = format!("{file}:{line}: {reason}: {text}{cut}");
            self.first.push((reason, text));
        }
    }

    pub(super) fn first_reason(&self) -> Option<Reason> {
        self.first.first().map(|(reason, _)| *reason)
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
        let mut lines = self.first.iter();
        lines.try_for_each(|(_, line)| writeln!(f, "  {line}"))
    }
}
