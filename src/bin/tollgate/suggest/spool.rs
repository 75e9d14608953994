//! The requests of a log in a temporary file: an instant and a hash of the client for each.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek, Write},
};

use anyhow::{Context, Result};

const BUFFER: usize = 256 * 1024;

const REMEDY: &str = "cannot use a temporary file: set TMPDIR to a folder with room for 16 bytes per line of the log";

/// A temporary file without a name, which the system deletes when it is closed.
pub(super) struct Spool {
    file: BufWriter<File>,
    len: u64,
}

impl Spool {
    pub(super) fn create() -> Result<Self> {
        let file = tempfile::tempfile().context(REMEDY)?;
        let file = BufWriter::with_capacity(BUFFER, file);
        Ok(Self { file, len: 0 })
    }

    pub(super) fn push(&mut self, at: u64, client: u64) -> Result<()> {
        self.len += 1;
        let record = [at, client].map(u64::to_le_bytes);
        self.file.write_all(record.as_flattened()).context(REMEDY)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Visits all requests, in the order of their times.
    pub(super) fn visit(&mut self, visit: impl FnMut(u64, u64)) -> Result<()> {
        self.try_visit(visit).context(REMEDY)
    }

    fn try_visit(&mut self, mut visit: impl FnMut(u64, u64)) -> io::Result<()> {
        self.file.flush()?;
        let file = self.file.get_mut();
        file.rewind()?;
        let mut reader = BufReader::with_capacity(BUFFER, file);
        let mut record = [[0; 8]; 2];
        for _ in 0..self.len {
            reader.read_exact(record.as_flattened_mut())?;
            let [at, client] = record.map(u64::from_le_bytes);
            visit(at, client);
        }
        Ok(())
    }
}
