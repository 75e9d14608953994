use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    Arithmetic, Ask, AskError, Charge, FieldReader, LimitError, Notation, Parameters,
    block::Block,
    concurrency::{Concurrency, new_name},
    gcra::Gcra,
    notation::{AlgorithmFields, is_number},
    quota::Quota,
    tiers::Tiers,
    window::Window,
};

/// The algorithm of a limit, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Algorithm {
    /// A token bucket.
    Gcra(Gcra),
    /// A sliding window.
    Window(Window),
    /// A quota per period.
    Quota(Quota),
    /// Permits for what runs at once.
    Concurrency(Concurrency),
    /// Burst tiers.
    Tiers(Tiers),
    /// A list of blocked clients.
    Block(Block),
}

/// The part of a [`BucketKey`](crate::backend::custom::BucketKey) that stands for the algorithm: nothing for GCRA, or `~` and a
/// letter. No name and no number contains a `~`.
///
/// A bucket belongs to its algorithm. If the algorithm of a limit changes, its clients start with new buckets, and while
/// two versions of a limit run in one fleet, each version has its own.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[non_exhaustive]
pub enum AlgorithmKey {
    /// GCRA, written as nothing.
    #[default]
    Gcra,
    /// A window, written `~w`.
    Window,
    /// A quota, written `~q`.
    Quota,
    /// A concurrency limit, written `~c`.
    Concurrency,
    /// Tiers, written `~t`.
    Tiers,
    /// A list of blocked clients, written `~b`.
    Block,
}

impl AlgorithmKey {
    /// The algorithms of limits in files with their fields, in the order in which these are listed.
    pub(crate) const FIELDS: [(Self, &AlgorithmFields); 5] = [
        (Self::Gcra, &Gcra::FIELDS),
        (Self::Window, &Window::FIELDS),
        (Self::Quota, &Quota::FIELDS),
        (Self::Concurrency, &Concurrency::FIELDS),
        (Self::Tiers, &Tiers::FIELDS),
    ];

    /// The text of the key.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gcra => "",
            Self::Window => "~w",
            Self::Quota => "~q",
            Self::Concurrency => "~c",
            Self::Tiers => "~t",
            Self::Block => "~b",
        }
    }

    /// Reads the fields of a file. Returns `None` if they have a mistake, or if no file has such limits.
    pub(crate) fn read<F: FieldReader>(self, fields: &F) -> Option<Algorithm> {
        Some(match self {
            Self::Gcra => Algorithm::Gcra(Gcra::read(fields)?),
            Self::Window => Algorithm::Window(Window::read(fields)?),
            Self::Quota => Algorithm::Quota(Quota::read(fields)?),
            Self::Concurrency => Algorithm::Concurrency(Concurrency::read(fields)?),
            Self::Tiers => Algorithm::Tiers(Tiers::read(fields)?),
            Self::Block => return None,
        })
    }
}

impl fmt::Display for AlgorithmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Algorithm {
    /// Reads a limit in one line. No line has the forms of two algorithms.
    pub(crate) fn parse(line: &str) -> Result<Self, LimitError> {
        const FORMS: &str = "write it as `10/s burst 20`, `5 per 15m`, `5 in any 15m`, `1000 per calendar day` or `4 at once`";
        // The names of time zones have slashes of their own.
        let (limit, zone) = line.split_at(line.rfind(" in ").unwrap_or(line.len()));
        let line = limit.replace('/', " per ") + zone;
        let words: Vec<_> = line.split_whitespace().collect();
        let line = words.join(" ");
        if words.first().is_some_and(|first| is_number(first)) {
            for parse in [
                Gcra::parse,
                Window::parse,
                Quota::parse,
                Concurrency::parse,
                Tiers::parse,
            ] {
                if let Some(algorithm) = parse(&line)? {
                    return Ok(algorithm);
                }
            }
        }
        Err(LimitError::text(FORMS))
    }

    /// The part of a bucket's key that stands for the algorithm.
    #[must_use]
    #[inline]
    pub(crate) const fn key(&self) -> AlgorithmKey {
        match self {
            Self::Gcra(_) => AlgorithmKey::Gcra,
            Self::Window(_) => AlgorithmKey::Window,
            Self::Quota(_) => AlgorithmKey::Quota,
            Self::Concurrency(_) => AlgorithmKey::Concurrency,
            Self::Tiers(_) => AlgorithmKey::Tiers,
            Self::Block(_) => AlgorithmKey::Block,
        }
    }

    /// Returns the most units that can be taken at once.
    #[must_use]
    pub(crate) fn capacity(&self) -> u32 {
        self.parameters().capacity()
    }

    /// Returns the parameters of the algorithm.
    pub(crate) fn parameters(&self) -> &dyn Parameters {
        match self {
            Self::Gcra(gcra) => gcra,
            Self::Window(window) => window,
            Self::Quota(quota) => quota,
            Self::Concurrency(concurrency) => concurrency,
            Self::Tiers(tiers) => tiers,
            Self::Block(block) => block,
        }
    }

    /// Checks that the algorithm can answer the question at all, whatever the state.
    #[inline]
    pub(crate) fn accepts(&self, ask: &Ask) -> Result<(), AskError> {
        match self {
            Self::Gcra(gcra) => gcra.accepts(ask),
            Self::Window(window) => window.accepts(ask),
            Self::Quota(quota) => quota.accepts(ask),
            Self::Concurrency(concurrency) => concurrency.accepts(ask),
            Self::Tiers(tiers) => tiers.accepts(ask),
            Self::Block(block) => block.accepts(ask),
        }
    }

    /// Returns the time for which a permit counts after it was taken or renewed, if the algorithm has permits.
    pub(crate) const fn hold(&self) -> Option<Duration> {
        match self {
            Self::Concurrency(concurrency) => Some(concurrency.hold()),
            _ => None,
        }
    }

    /// Names new permits, if the algorithm has permits.
    #[inline]
    pub(crate) fn new_permits(&self, units: u32) -> Option<Charge> {
        let Self::Concurrency(_) = self else {
            return None;
        };
        Some(Charge {
            at: new_name(),
            frac: 0,
            units,
        })
    }

    /// Returns whether requests can wait in line.
    #[inline]
    pub(crate) const fn has_line(&self) -> bool {
        matches!(self, Self::Gcra(gcra) if !gcra.max_wait().is_zero())
    }
}
