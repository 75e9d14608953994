//! Lines of bounded length.

use std::io::{self, BufRead, Read};

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
        let mut start = self.reader.by_ref().take(LONGEST as u64 + 1);
        if start.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(NextLine::End);
        }
        let is_cut = self.line.pop_if(|end| *end == b'\n').is_none() && self.line.len() > LONGEST;
        if is_cut {
            self.line.truncate(LONGEST);
            self.reader.skip_until(b'\n')?;
        }
        self.line.pop_if(|end| *end == b'\r');
        Ok(match is_cut {
            true => NextLine::Cut(&self.line),
            false => NextLine::Whole(&self.line),
        })
    }
}
