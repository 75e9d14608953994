//! Access logs: requests from files or standard input, plain or by gzip, in the order of their times.
//!
//! Servers write a line when a request has ended, often with the time at which it began. So each log has a buffer of some
//! thousand requests, and the earliest of them comes first. The logs are then merged by time, whatever the order of their
//! names. A request that is later still takes place at the latest instant so far, because a clock does not step back.

mod format;
mod input;
mod json;
mod key;
mod text;
mod unreadable;
mod value;

use std::{
    cmp::Reverse,
    io::{Write, stderr},
    num::NonZeroUsize,
    path::PathBuf,
};

use anyhow::Result;
use clap::Args;

pub(crate) use self::key::Key;
use self::{input::Input, unreadable::Unreadable};
use crate::output::{counted, grouped, say};

/// The logs to read.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogArgs {
    /// Access logs: Common or Combined Log Format, JSON lines, W3C extended logs (IIS, CloudFront) or logs of AWS load
    /// balancers; plain or gzip; standard input without any, or for -
    #[arg(value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// The field with the time, if it is not a usual one
    #[arg(long, value_name = "FIELD")]
    time: Option<String>,
    /// The field with the client's address, if it is not a usual one
    #[arg(long, value_name = "FIELD")]
    address: Option<String>,
    /// In a list of addresses, the place of the client's, counted from the right: the number of your proxies
    #[arg(long, value_name = "N")]
    hops: Option<NonZeroUsize>,
}

/// The parts of a request that somebody needs, beside its time. The rest is not looked at.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Whose bucket it may be charged to.
    keys: Vec<Key>,
    /// Whether the method and the path are needed.
    pub(crate) request: bool,
}

impl Wanted {
    /// Adds a key, and returns its place in [`Record::ids`].
    pub(crate) fn key(&mut self, key: Key) -> usize {
        let known = self.keys.iter().position(|known| *known == key);
        known.unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        })
    }
}

/// A request, with those of its parts that are [wanted](Wanted).
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    /// When it was made, in microseconds since the Unix epoch.
    pub(crate) at: u64,
    /// The ids by the keys.
    pub(crate) ids: Vec<Option<String>>,
    pub(crate) method: String,
    /// The path without the query.
    pub(crate) path: String,
}

/// Reads logs, and yields their requests by time.
pub(crate) struct Log<'a> {
    args: &'a LogArgs,
    wanted: Wanted,
    inputs: Vec<Input>,
    requests: u64,
    latest: u64,
    late: u64,
}

impl LogArgs {
    /// Opens the files, or standard input without any.
    pub(crate) fn open(&self, wanted: Wanted) -> Result<Log<'_>> {
        let standard_input = ["-".into()];
        let paths = match self.logs.is_empty() {
            true => &standard_input[..],
            false => &self.logs,
        };
        let inputs = paths.iter().map(|path| Input::open(path));
        Ok(Log {
            args: self,
            inputs: inputs.collect::<Result<_>>()?,
            wanted,
            requests: 0,
            latest: 0,
            late: 0,
        })
    }
}

impl Log<'_> {
    /// The next request, or `None` at the end.
    pub(crate) fn next_record(&mut self) -> Result<Option<Record>> {
        for input in &mut self.inputs {
            input.fill(self.args, &self.wanted)?;
        }
        let inputs = self.inputs.iter_mut();
        let waiting = inputs.filter(|input| !input.buffer.is_empty());
        let earliest = waiting.min_by_key(|input| input.buffer.peek().map(|Reverse((at, ..))| *at));
        let Some(Reverse((.., mut record))) = earliest.and_then(|input| input.buffer.pop()) else {
            return Ok(None);
        };
        self.requests += 1;
        self.late += u64::from(record.at < self.latest);
        self.latest = self.latest.max(record.at);
        record.at = self.latest;
        Ok(Some(record))
    }

    /// Writes what could not be read to standard error, and returns what is known of the lines.
    pub(crate) fn end(self) -> LogEnd {
        let mut end = LogEnd {
            requests: self.requests,
            ..LogEnd::default()
        };
        for input in self.inputs {
            end.lines += input.line;
            end.unreadable.merge(input.unreadable);
        }
        let _ = write!(stderr(), "{}", end.unreadable);
        if self.late > 0 {
            say(format_args!(
                "requests far out of order, which count at the latest instant before them (sort the log by time to count \
                 them exactly): {}",
                grouped(self.late)
            ));
        }
        end
    }
}

/// What is known when all was read.
#[derive(Debug, Default)]
pub(crate) struct LogEnd {
    pub(crate) lines: u64,
    requests: u64,
    pub(crate) unreadable: Unreadable,
}

impl LogEnd {
    /// How much was read, in words.
    pub(crate) fn sentence(&self) -> String {
        let (lines, unreadable) = (counted(self.lines, "line"), grouped(self.unreadable.count));
        format!("{lines}, {unreadable} of them unreadable")
    }

    /// Says what to do if nothing could be read.
    pub(crate) fn problem(&self) -> Option<String> {
        let first = self.unreadable.first_reason();
        (self.requests == 0).then(|| match first {
            None => "the log is empty: name a file with requests".to_owned(),
            Some(reason) => format!("no line could be read. Of the first, {reason}"),
        })
    }
}
