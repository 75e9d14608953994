//! Lines of bounded length.

use std::io::{self, BufRead};

/// The most bytes of a line that are read.
pub(super) const LONGEST: usize = 64 * 1024;

/// Splits what it reads into lines.
pub(super) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
}

/// What the next line is.
pub(super) enum NextLine<'a> {
    Whole(&'a [u8]),
    /// The start of a line that is too long. The rest was skipped.
    Cut(&'a [u8]),
    End,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        let line = Vec::new();
        Self { reader, line }
    }

    /// Reads the next line, without its end.
    pub(super) fn next_line(&mut self) -> io::Result<NextLine<'_>> {
        self.line.clear();
        let (mut is_cut, mut has_begun) = (false, false);
        loop {
            let available = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                available => available?,
            };
            if available.is_empty() {
                break;
            }
            has_begun = true;
            let end = newline(available);
            let part = &available[..end.unwrap_or(available.len())];
            let room = LONGEST - self.line.len();
            is_cut |= part.len() > room;
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let consumed = part.len() + usize::from(end.is_some());
            self.reader.consume(consumed);
            if end.is_some() {
                break;
            }
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(match (has_begun, is_cut) {
            (false, _) => NextLine::End,
            (true, true) => NextLine::Cut(&self.line),
            (true, false) => NextLine::Whole(&self.line),
        })
    }
}

fn newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}
