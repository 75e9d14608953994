//! How limits are written, whatever their algorithm.

use std::fmt;

use super::algorithm::{Algorithm, each, keyed};
use crate::algorithm::{
    algorithm_key::AlgorithmKey,
    each::Each,
    limit_error::NotationError,
    notation::{FieldReader, Notation, WrittenFields},
};

impl AlgorithmKey {
    /// The fields that only this algorithm has.
    pub(crate) const fn fields(self) -> &'static [&'static str] {
        keyed!(self, (By, This) => By::FIELDS)
    }

    /// More fields, which do not mark a limit, and the reason why other algorithms do not have them.
    pub(crate) const fn options(self) -> &'static [(&'static str, &'static str)] {
        keyed!(self, (By, This) => By::OPTIONS)
    }

    /// The main fields, in words.
    pub(crate) const fn words(self) -> &'static str {
        keyed!(self, (By, This) => By::WORDS)
    }

    /// Reads the fields of a file.
    pub(crate) fn read<F: FieldReader>(self, fields: &F) -> Result<Algorithm, F::Error> {
        keyed!(self, (By, This) => By::read(fields).map(This))
    }

    fn parse(self, line: &str) -> Option<Result<Algorithm, NotationError>> {
        keyed!(self, (By, This) => By::parse(line).map(|read| read.map(This)))
    }
}

impl Algorithm {
    /// Reads a limit in one line.
    pub(crate) fn parse(line: &str) -> Result<Self, NotationError> {
        // From the longest form to the shortest.
        let mut keys = AlgorithmKey::ALL.into_iter().rev();
        let read = keys.find_map(|key| key.parse(line));
        read.unwrap_or(Err(NotationError::Form))
    }

    /// Writes what [`parse`](Self::parse) reads.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        each!(self, by => Notation::write(by, f))
    }

    /// Returns the values for a file.
    pub(crate) fn values(&self) -> WrittenFields {
        each!(self, by => Notation::values(by))
    }

    /// Returns mistakes that are probable but not certain, each with the number of its tier.
    pub(crate) fn doubts(&self) -> Vec<(usize, &'static str)> {
        each!(self, by => Notation::doubts(by))
    }
}
