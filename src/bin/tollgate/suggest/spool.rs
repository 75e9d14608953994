//! The requests of a log in a temporary file: an instant and a hash of the client for each.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek, Write},
};

use crate::failure::Failure;

const RECORD: usize = 16;

const BUFFER: usize = 256 * 1024;

/// A temporary file without a name, which the system deletes when it is closed.
pub(super) struct Spool {
    file: BufWriter<File>,
    len: u64,
}

impl Spool {
    pub(super) fn create() -> Result<Self, Failure> {
        let file = tempfile::tempfile().map_err(Failure::Spool)?;
        Ok(Self {
            file: BufWriter::with_capacity(BUFFER, file),
            len: 0,
        })
    }

    pub(super) fn push(&mut self, at: u64, client: u64) -> Result<(), Failure> {
        let mut record = [0; RECORD];
        record[..8].copy_from_slice(&at.to_le_bytes());
        record[8..].copy_from_slice(&client.to_le_bytes());
        self.len += 1;
        self.file.write_all(&record).map_err(Failure::Spool)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Visits all requests, in the order of their times.
    pub(super) fn visit(&mut self, visit: impl FnMut(u64, u64)) -> Result<(), Failure> {
        self.try_visit(visit).map_err(Failure::Spool)
    }

    fn try_visit(&mut self, mut visit: impl FnMut(u64, u64)) -> io::Result<()> {
        self.file.flush()?;
        let file = self.file.get_mut();
        file.rewind()?;
        let mut reader = BufReader::with_capacity(BUFFER, file);
        let mut record = [0; RECORD];
        for _ in 0..self.len {
            reader.read_exact(&mut record)?;
            let record = u128::from_le_bytes(record);
            let (client, at) = (record >> 64, record & u128::from(u64::MAX));
            visit(word(at), word(client));
        }
        Ok(())
    }
}

fn word(half: u128) -> u64 {
    u64::try_from(half).unwrap_or_default()
}
