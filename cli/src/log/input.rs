//! Reads one log: a file or standard input, plain or compressed with gzip, in lines of bounded length.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::File,
    io::{self, BufRead, BufReader, Cursor, Read, stdin},
    path::Path,
};

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;

use super::{LineError, LineReader, LogArgs, LogEnd, NeededParts, Record};

const GZIP: [u8; 2] = [0x1f, 0x8b];

const BUFFER: usize = 128 * 1024;

/// The most bytes of a line that are read.
const LONGEST: usize = 64 * 1024;

/// The number of requests of a log that wait for earlier ones.
const WAITING: usize = 8192;

/// A log, with the requests that wait for earlier ones.
pub(super) struct Input {
    name: String,
    reader: Box<dyn BufRead>,
    formats: LineReader,
    line: u64,
    has_ended: bool,
    /// The requests, ordered by their times and, within one instant, by their lines.
    pub(super) buffer: BinaryHeap<Reverse<(u64, u64, Record)>>,
}

impl Input {
    /// Opens a file, or standard input for `-`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let (name, opened) = if path == Path::new("-") {
            ("standard input".to_owned(), decompressed(stdin()))
        } else {
            (
                path.display().to_string(),
                File::open(path).and_then(decompressed),
            )
        };
        Ok(Self {
            reader: opened.with_context(|| unreadable(&name))?,
            name,
            formats: LineReader::default(),
            line: 0,
            has_ended: false,
            buffer: BinaryHeap::new(),
        })
    }

    /// Reads until the buffer is full. Counts the lines.
    pub(super) fn fill(
        &mut self,
        args: &LogArgs,
        needed: &NeededParts,
        end: &mut LogEnd,
    ) -> Result<()> {
        let mut line = Vec::new();
        while self.buffer.len() < WAITING && !self.has_ended {
            let next = next_line(&mut self.reader, &mut line);
            let Some(is_cut) = next.with_context(|| unreadable(&self.name))? else {
                self.has_ended = true;
                break;
            };
            self.line += 1;
            end.lines += 1;
            let read = if is_cut {
                Some(Err(LineError::TooLong))
            } else {
                self.formats.read(&line, args, needed)
            };
            match read {
                None => {}
                Some(Ok(record)) => self.buffer.push(Reverse((record.at, self.line, record))),
                Some(Err(reason)) => end.unreadable.add(&self.name, self.line, reason, &line),
            }
        }
        Ok(())
    }
}

fn unreadable(name: &str) -> String {
    format!("{name}: cannot read it")
}

/// Reads the next line without its end, and returns whether it was cut; `None` at the end.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let mut start = reader.by_ref().take(LONGEST as u64 + 1);
    if start.read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    let is_cut = line.pop_if(|end| *end == b'\n').is_none() && line.len() > LONGEST;
    if is_cut {
        reader.skip_until(b'\n')?;
    }
    line.pop_if(|end| *end == b'\r');
    Ok(Some(is_cut))
}

fn decompressed(mut reader: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut start = Vec::new();
    reader.by_ref().take(2).read_to_end(&mut start)?;
    let is_gzip = start == GZIP;
    let whole = Cursor::new(start).chain(reader);
    Ok(if is_gzip {
        Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(whole)))
    } else {
        Box::new(BufReader::with_capacity(BUFFER, whole))
    })
}
