//! How limits are written, whatever their algorithm.

use std::fmt;

use serde::{Serialize, Serializer};

use super::algorithm::{Algorithm, each, each_as, keyed, map_each};
use crate::algorithm::{
    algorithm_key::AlgorithmKey,
    concurrency::Concurrency,
    each::Each,
    gcra::Gcra,
    limit_error::NotationError,
    notation::{FieldReader, Notation},
    quota::Quota,
    tiers::Tiers,
    window::Window,
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
    pub(crate) fn values(&self) -> AlgorithmValues {
        AlgorithmValues(map_each!(self, by => Notation::values(by)))
    }

    /// Returns the fields in one line, for the error about a limit in a file that is written as a line.
    pub(crate) fn written_out(&self) -> Option<String> {
        each!(self, by => Notation::written_out(by))
    }

    /// Returns mistakes that are probable but not certain, each with the number of its tier.
    pub(crate) fn doubts(&self) -> Vec<(usize, &'static str)> {
        each!(self, by => Notation::doubts(by))
    }
}

/// The values of a limit, for files.
pub(crate) struct AlgorithmValues(EachValues);

type EachValues = Each<
    <Gcra as Notation>::Values,
    <Tiers as Notation>::Values,
    <Window as Notation>::Values,
    <Quota as Notation>::Values,
    <Concurrency as Notation>::Values,
>;

impl Serialize for AlgorithmValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        each!(&self.0, values => values.serialize(serializer))
    }
}
