//! Access logs: requests from files or standard input, plain or by gzip, in the order of their times.
//!
//! Servers write a line when a request has ended, often with the time at which it began. So each log has a buffer of some thousand
//! requests, from which the earliest is taken. The logs are merged by time, in whatever order they are named. A request that is
//! older than one already taken gets the latest time so far, because a clock does not step back.

mod input;
mod json;
mod key;
mod line;
mod text;
mod value;

use std::{
    cmp::Reverse,
    fmt,
    io::{Write, stderr},
    num::NonZeroUsize,
    path::PathBuf,
};

use anyhow::Result;
use clap::Args;
use regex::{Captures, Regex};
use thiserror::Error;

pub(crate) use self::key::Key;
use self::{
    input::Input,
    json::JsonLine,
    line::Line,
    text::{ExtendedLine, known_form},
};
use crate::output::{counted, grouped, say, shown};

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
    /// The field with the method, if it is not a usual one
    #[arg(long, value_name = "FIELD")]
    method: Option<String>,
    /// The field with the path, if it is not a usual one
    #[arg(long, value_name = "FIELD")]
    path: Option<String>,
    /// A regular expression for lines in another form, with the named groups address, time, method and path, such as
    /// `^(?<address>\S+) (?<time>\S+)`
    #[arg(long, value_name = "REGEX")]
    pattern: Option<Regex>,
    /// In a list of addresses, the position of the client's, counted from the right: the number of your proxies
    #[arg(long, value_name = "N")]
    hops: Option<NonZeroUsize>,
}

/// The parts of a request that a command needs, besides its time. The rest is not read.
#[derive(Debug, Default)]
pub(crate) struct NeededParts {
    /// The keys by which a request may be charged.
    keys: Vec<Key>,
    /// Whether the method and the path are needed.
    pub(crate) request: bool,
}

impl NeededParts {
    /// Adds a key, and returns its index in [`Record::ids`].
    pub(crate) fn key(&mut self, key: Key) -> usize {
        let known = self.keys.iter().position(|known| *known == key);
        known.unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        })
    }
}

/// A request, with the [needed](NeededParts) parts.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    /// When it was made, in microseconds since the Unix epoch.
    pub(crate) at: u64,
    /// The ids, one for each key.
    pub(crate) ids: Vec<Option<String>>,
    pub(crate) method: String,
    /// The path without the query.
    pub(crate) path: String,
}

/// Reads logs, and yields their requests by time.
pub(crate) struct Log<'a> {
    args: &'a LogArgs,
    needed: NeededParts,
    inputs: Vec<Input>,
    end: LogEnd,
    latest: u64,
    late: u64,
}

impl LogArgs {
    /// Opens the files, or standard input without any.
    pub(crate) fn open(&self, needed: NeededParts) -> Result<Log<'_>> {
        let standard_input = ["-".into()];
        let paths = if self.logs.is_empty() {
            &standard_input[..]
        } else {
            &self.logs
        };
        let inputs = paths.iter().map(|path| Input::open(path));
        Ok(Log {
            args: self,
            inputs: inputs.collect::<Result<_>>()?,
            needed,
            end: LogEnd::default(),
            latest: 0,
            late: 0,
        })
    }
}

impl Log<'_> {
    /// The next request, or `None` at the end.
    pub(crate) fn next_record(&mut self) -> Result<Option<Record>> {
        for input in &mut self.inputs {
            input.fill(self.args, &self.needed, &mut self.end)?;
        }
        let inputs = self.inputs.iter_mut();
        let waiting = inputs.filter(|input| !input.buffer.is_empty());
        let earliest = waiting.min_by_key(|input| input.buffer.peek().map(|Reverse((at, ..))| *at));
        let Some(Reverse((.., mut record))) = earliest.and_then(|input| input.buffer.pop()) else {
            return Ok(None);
        };
        self.end.requests += 1;
        self.late += u64::from(record.at < self.latest);
        self.latest = self.latest.max(record.at);
        record.at = self.latest;
        Ok(Some(record))
    }

    /// Writes the lines that could not be read to standard error, and returns the counts.
    pub(crate) fn end(self) -> LogEnd {
        let _ = write!(stderr(), "{}", self.end.unreadable);
        if self.late > 0 {
            say(format_args!(
                "requests far out of order, which count at the latest instant before them (sort the log by time to count \
                 them exactly): {}",
                grouped(self.late)
            ));
        }
        self.end
    }
}

/// The counts after all lines were read.
#[derive(Debug, Default)]
pub(crate) struct LogEnd {
    pub(crate) lines: u64,
    requests: u64,
    pub(crate) unreadable: UnreadableLines,
}

impl LogEnd {
    /// How much was read, in words.
    pub(crate) fn sentence(&self) -> String {
        let lines = counted(self.lines, "line");
        let unreadable = grouped(self.unreadable.count);
        format!("{lines}, {unreadable} of them unreadable")
    }

    /// Returns what to do if nothing could be read.
    pub(crate) fn problem(&self) -> Option<String> {
        (self.requests == 0).then(|| match self.unreadable.first.first() {
            None => "the log is empty: name a file with requests".to_owned(),
            Some((reason, _)) => format!("no line could be read. Of the first, {reason}"),
        })
    }
}

/// The mark with which some programs begin a file in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads lines, and remembers the columns that a W3C extended log declares for the following lines.
#[derive(Default)]
struct LineReader {
    columns: Vec<String>,
}

impl LineReader {
    /// Reads a line; `None` for a directive.
    fn read(
        &mut self,
        line: &[u8],
        args: &LogArgs,
        needed: &NeededParts,
    ) -> Option<Result<Record, LineError>> {
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        let line = line.trim_ascii_start();
        let text = &*String::from_utf8_lossy(line);
        let read =
            |line: Option<Captures<'_>>, otherwise| record(&line.ok_or(otherwise)?, args, needed);
        if let Some(pattern) = &args.pattern {
            return Some(read(pattern.captures(text), LineError::Pattern));
        }
        if text.starts_with('{') {
            return Some(JsonLine::parse(line).and_then(|line| {
                let has_client = args.address_of(&line) != Err(LineError::NoAddress);
                let wrapped = line.wrapped().filter(|_| !has_client);
                match read(wrapped.and_then(known_form), LineError::Form) {
                    Err(LineError::Form | LineError::Time | LineError::NoAddress) => {
                        record(&line, args, needed)
                    }
                    read => read,
                }
            }));
        }
        if let Some((name, value)) = directive(text) {
            if name == "Fields" {
                self.columns = value.split_whitespace().map(str::to_owned).collect();
            }
            return None;
        }
        Some(if self.columns.is_empty() {
            read(known_form(text), LineError::Form)
        } else {
            ExtendedLine::parse(text, &self.columns).and_then(|line| record(&line, args, needed))
        })
    }
}

/// The name and the value of a directive of a W3C extended log, such as `#Fields: date time c-ip`.
fn directive(text: &str) -> Option<(&str, &str)> {
    let directive = text.strip_prefix('#')?.split_once(':')?;
    (!directive.0.contains(' ')).then_some(directive)
}

fn record(line: &impl Line, args: &LogArgs, needed: &NeededParts) -> Result<Record, LineError> {
    let ids = needed.keys.iter().map(|key| key.id(line, args));
    let (method, path) = if needed.request {
        args.request_of(line)
    } else {
        Default::default()
    };
    Ok(Record {
        at: args.time_of(line)?,
        ids: ids.collect::<Result<_, _>>()?,
        method,
        path,
    })
}

/// The number of lines that are shown.
const SHOWN: usize = 5;

/// The most bytes of a line that are shown.
const EXCERPT: usize = 120;

/// The lines that cannot be read: their number, and the first ones.
#[derive(Debug, Default)]
pub(crate) struct UnreadableLines {
    pub(crate) count: u64,
    first: Vec<(LineError, String)>,
}

/// The reason why a line cannot be read, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum LineError {
    #[error("it is longer than 64 KiB: cut its longest field")]
    TooLong,
    #[error(
        "it is in no known format: use Common Log Format, JSON lines, a W3C extended log with its `#Fields:`, or the log of \
         an AWS load balancer, or describe its form with --pattern, such as `^(?<address>\\S+) (?<time>\\S+)`"
    )]
    Form,
    #[error("it does not match --pattern")]
    Pattern,
    #[error("it has no time: name its field with --time")]
    NoTime,
    #[error("its time cannot be read: write it as in RFC 3339, or name another field with --time")]
    Time,
    #[error("its time is a date without a time of day: name another field with --time")]
    Date,
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

impl UnreadableLines {
    fn add(&mut self, file: &str, line: u64, reason: LineError, bytes: &[u8]) {
        self.count += 1;
        if self.first.len() < SHOWN {
            let start = &bytes[..bytes.len().min(EXCERPT)];
            let cut = if start.len() < bytes.len() { "…" } else { "" };
            let text = shown(&String::from_utf8_lossy(start));
            let text = format!("{file}:{line}: {reason}: {text}{cut}");
            self.first.push((reason, text));
        }
    }
}

/// Writes the count and the first of the lines, or nothing if all could be read.
impl fmt::Display for UnreadableLines {
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
