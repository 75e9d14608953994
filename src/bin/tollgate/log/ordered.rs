//! The requests of all logs in the order of their times.
//!
//! Servers write a line when a request has ended, often with the time at which it began. So each log has a buffer of some
//! thousand requests, and the earliest of them comes first. The logs are then merged by time, whatever the order of their
//! names. A request that is later still takes place at the latest instant so far, because a clock does not step back.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io::BufRead,
    path::{Path, PathBuf},
};

use indicatif::{HumanCount, ProgressBar};

use super::{
    common_format, json_format,
    lines::{Lines, NextLine},
    record::{Record, Wanted},
    source::{self, SourceError},
    unreadable::{Reason, Unreadable},
};

/// The mark with which some programs begin a file in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The requests of a log that wait for earlier ones.
const BUFFERED: usize = 8192;

/// Reads logs, and yields their requests by time.
pub(crate) struct Log {
    wanted: Wanted,
    inputs: Vec<Input>,
    latest: u64,
    late: u64,
    progress: ProgressBar,
}

/// What is known when all was read.
#[derive(Debug, Default)]
pub(crate) struct LogEnd {
    pub(crate) lines: u64,
    pub(crate) unreadable: Unreadable,
    /// Requests that came too late for their place, and count at the latest instant before them.
    pub(crate) late: u64,
}

impl LogEnd {
    /// How much was read, in words.
    pub(crate) fn sentence(&self) -> String {
        let (lines, unreadable) = (HumanCount(self.lines), HumanCount(self.unreadable.count()));
        format!("{lines} lines, {unreadable} of them unreadable")
    }
}

impl Log {
    /// Opens files; `-` is standard input.
    pub(crate) fn open(paths: &[PathBuf], wanted: Wanted) -> Result<Self, SourceError> {
        let progress = source::progress(paths);
        let inputs = paths.iter().map(|path| Input::open(path, &progress));
        Ok(Self {
            inputs: inputs.collect::<Result<_, _>>()?,
            wanted,
            latest: 0,
            late: 0,
            progress,
        })
    }

    /// The next request, or `None` at the end.
    pub(crate) fn next_record(&mut self) -> Result<Option<Record>, SourceError> {
        for input in &mut self.inputs {
            input.fill(&self.wanted)?;
        }
        let inputs = self.inputs.iter_mut();
        let waiting = inputs.filter(|input| !input.buffer.is_empty());
        let earliest = waiting.min_by_key(|input| input.buffer.peek().map(|Reverse((at, ..))| *at));
        let Some(Reverse((.., mut record))) = earliest.and_then(|input| input.buffer.pop()) else {
            return Ok(None);
        };
        self.late += u64::from(record.at < self.latest);
        self.latest = self.latest.max(record.at);
        record.at = self.latest;
        Ok(Some(record))
    }

    /// Ends the progress bar, and returns what is known of the lines.
    pub(crate) fn end(self) -> LogEnd {
        self.progress.finish_and_clear();
        let mut end = LogEnd {
            late: self.late,
            ..LogEnd::default()
        };
        for input in self.inputs {
            end.lines += input.line;
            end.unreadable.merge(input.unreadable);
        }
        end
    }
}

/// One log, with the requests that wait for earlier ones.
struct Input {
    name: String,
    lines: Lines<Box<dyn BufRead>>,
    line: u64,
    has_ended: bool,
    /// Requests by their times, and those of one instant by their lines.
    buffer: BinaryHeap<Reverse<(u64, u64, Record)>>,
    unreadable: Unreadable,
}

impl Input {
    fn open(path: &Path, progress: &ProgressBar) -> Result<Self, SourceError> {
        let (name, reader) = source::open(path, progress)?;
        Ok(Self {
            name,
            lines: Lines::new(reader),
            line: 0,
            has_ended: false,
            buffer: BinaryHeap::new(),
            unreadable: Unreadable::default(),
        })
    }

    /// Reads until the buffer is full.
    fn fill(&mut self, wanted: &Wanted) -> Result<(), SourceError> {
        while self.buffer.len() < BUFFERED && !self.has_ended {
            let next = self.lines.next_line();
            let next = next.map_err(|error| SourceError::new(&self.name, error))?;
            let (line, read) = match next {
                NextLine::End => {
                    self.has_ended = true;
                    break;
                }
                NextLine::Cut(start) => (start, Err(Reason::TooLong)),
                NextLine::Whole(line) => (line, read(line, wanted)),
            };
            self.line += 1;
            match read {
                Ok(record) => self.buffer.push(Reverse((record.at, self.line, record))),
                Err(reason) => self.unreadable.add(&self.name, self.line, reason, line),
            }
        }
        Ok(())
    }
}

/// Reads a line. One that begins with a brace is JSON.
fn read(line: &[u8], wanted: &Wanted) -> Result<Record, Reason> {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    let line = line.trim_ascii_start();
    match line.first() {
        Some(b'{') => json_format::read(line, wanted),
        _ => common_format::read(line, wanted),
    }
}
