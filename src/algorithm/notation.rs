//! How limits are written: in one line, and as the fields of a file.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};
use thiserror::Error;

use super::{
    algorithm_key::AlgorithmKey,
    concurrency::{Concurrency, ConcurrencyError},
    duration::DurationError,
    each::{Algorithm, Each, each, each_as, keyed, map_each},
    gcra::{Gcra, GcraError},
    limit_error::LimitErrorKind,
    line,
    quota::{Quota, QuotaMistake},
    tiers::{Tiers, TiersMistake},
    window::{Window, WindowError},
};
use crate::id::shortened;

/// The notation of an algorithm's limits.
pub(crate) trait Notation: Sized {
    /// The fields of a file that only this algorithm has. Any of them marks a limit as one of this algorithm.
    const FIELDS: &'static [&'static str];

    /// The main ones, in words.
    const WORDS: &'static str;

    /// More fields, which do not mark a limit, each with the reason why other algorithms do not have it.
    const OPTIONS: &'static [(&'static str, &'static str)] = &[];

    /// The values of a limit, for files.
    type Values: Serialize;

    /// Reads a limit in one line. Returns `None` if the line is not of this algorithm's form.
    fn parse(line: &str) -> Option<Result<Self, NotationError>>;

    /// Reads the fields of a file.
    fn read<F: FieldReader>(fields: &F) -> Result<Self, F::Error>;

    /// Writes what [`parse`](Self::parse) reads.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns what [`read`](Self::read) reads.
    fn values(&self) -> Self::Values;

    /// Returns the fields in one line, for the error about a limit in a file that is written as a line.
    fn written_out(&self) -> Option<String> {
        None
    }

    /// Returns mistakes that are probable but not certain, each with the number of its tier.
    fn doubts(&self) -> Vec<(usize, &'static str)> {
        Vec::new()
    }
}

/// The fields of a limit in a file.
pub(crate) trait FieldReader: Sized {
    /// A mistake, and its place.
    type Error;

    /// Reads a field with `parse`, if it is there.
    fn parsed<T>(
        &self,
        field: &'static str,
        parse: impl FnOnce(&str) -> Result<T, NotationError>,
    ) -> Result<Option<T>, Self::Error>;

    /// Reads a list of maps.
    fn list(
        &self,
        field: &'static str,
        of: &'static ListedFields,
    ) -> Result<Option<Vec<Self>>, Self::Error>;

    /// Creates the error for a missing field.
    fn missing(&self, field: &'static str) -> Self::Error;

    /// Creates the error for values that do not fit, at the field to change first.
    fn mistaken(&self, mistake: NotationError) -> Self::Error;

    /// A field that holds a whole number.
    fn whole(&self, field: &'static str) -> Result<Option<u32>, Self::Error> {
        self.parsed(field, |text| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|_| digits);
            number.ok_or_else(|| NotationError::Number {
                field,
                text: shortened(text),
            })
        })
    }

    /// A field that holds a duration.
    fn duration(&self, field: &'static str) -> Result<Option<Duration>, Self::Error> {
        self.parsed(field, |text| line::duration(field, text))
    }

    /// A field that holds a duration, or `infinite`.
    fn span(&self, field: &'static str) -> Result<Option<Duration>, Self::Error> {
        self.parsed(field, |text| line::span(field, text))
    }

    /// A field that holds `true` or `false`.
    fn flag(&self, field: &'static str) -> Result<bool, Self::Error> {
        let flag = self.parsed(field, |text| {
            text.parse().map_err(|_| NotationError::Flag {
                field,
                text: shortened(text),
            })
        })?;
        Ok(flag.unwrap_or(false))
    }
}

/// The fields of each map in a list.
#[derive(Debug)]
pub(crate) struct ListedFields {
    pub(crate) fields: &'static [&'static str],
    /// The list, in words.
    pub(crate) list: &'static str,
    /// A complete map, in words.
    pub(crate) whole: &'static str,
    /// Fields that a user could expect but that do not exist, with the reason.
    pub(crate) misplaced: &'static [(&'static str, &'static str)],
}

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

/// A mistake in a limit as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotationError {
    #[error(
        "write it as `10/s burst 20`, `5 per 15m`, `5 in any 15m`, `1000 per calendar day` or `4 at once`"
    )]
    Form,
    #[error("write `{0}`")]
    Instead(String),
    #[error("use numbers up to 4294967295")]
    LargeNumber,
    #[error("{field} is `{text}`: use a whole number up to 4294967295, in digits only")]
    Number { field: &'static str, text: String },
    #[error("{field} is `{text}`: write true or false")]
    Flag { field: &'static str, text: String },
    #[error("{field}: {source}")]
    Duration {
        field: &'static str,
        source: DurationError,
    },
    #[error(transparent)]
    Gcra(#[from] GcraError),
    #[error(transparent)]
    Window(#[from] WindowError),
    #[error(transparent)]
    Quota(#[from] QuotaMistake),
    #[error(transparent)]
    Concurrency(#[from] ConcurrencyError),
    #[error(transparent)]
    Tiers(#[from] TiersMistake),
    #[error("`{text}` is not a limit: {mistake}")]
    Line { text: String, mistake: Box<Self> },
    #[error(transparent)]
    Text(#[from] DurationError),
    #[error(
        "it is not a share of the burst: write a percentage above 0 and up to 100, as `5%` or `2.5%`"
    )]
    LeaseShare,
}

impl NotationError {
    /// Returns the field to change first, if it is one of several, and what is wrong.
    pub(crate) fn field_and_kind(&self) -> (Option<&'static str>, LimitErrorKind) {
        let (field, kind) = match self {
            Self::Form | Self::Instead(_) | Self::LargeNumber | Self::Text(_) => {
                return (None, LimitErrorKind::Unreadable);
            }
            Self::Line { mistake, .. } => return mistake.field_and_kind(),
            Self::Number { field, .. }
            | Self::Flag { field, .. }
            | Self::Duration { field, .. } => (*field, LimitErrorKind::Unreadable),
            Self::LeaseShare => ("lease", LimitErrorKind::Unreadable),
            Self::Gcra(mistake) => mistake.field_and_kind(),
            Self::Window(mistake) => mistake.field_and_kind(),
            Self::Quota(mistake) => mistake.field_and_kind(),
            Self::Concurrency(mistake) => mistake.field_and_kind(),
            Self::Tiers(mistake) => mistake.field_and_kind(),
        };
        (Some(field), kind)
    }

    /// Returns the tier with the mistake, if it is in a tier.
    pub(crate) fn tier(&self) -> Option<usize> {
        match self {
            Self::Tiers(TiersMistake::Tier { tier, .. }) => Some(*tier),
            Self::Line { mistake, .. } => mistake.tier(),
            _ => None,
        }
    }
}
