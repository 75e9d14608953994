use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    Arithmetic, Ask, AskError, FieldReader, NEVER, Notation, Parameters, Verb,
    concurrency::Concurrency,
    gcra::{Gcra, Ticks},
    notation::Form,
    quota::{Quota, Usage},
    tiers::{History, Tiers},
    window::{Units, Window},
};

/// The algorithm of a limit, with its parameters. [`Limit::algorithm`](crate::Limit::algorithm) returns it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
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
}

/// The state of a bucket, for backends that keep it themselves.
/// The [backend docs](crate::backend::custom) have an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum State {
    /// The theoretical arrival time of a token bucket.
    Gcra(Ticks),
    /// The instants of the units of a window, or of the permits of a concurrency limit.
    Units(Units),
    /// The used amount of a quota.
    Quota(Usage),
    /// The grants of tiers.
    Tiers(History),
}

impl AlgorithmKey {
    /// All algorithms, in the order in which their fields are listed.
    pub(crate) const ALL: [Self; 5] = [
        Self::Gcra,
        Self::Window,
        Self::Quota,
        Self::Concurrency,
        Self::Tiers,
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
        }
    }

    /// The fields of its limits in files.
    pub(crate) const fn form(self) -> &'static Form {
        match self {
            Self::Gcra => &Gcra::FORM,
            Self::Window => &Window::FORM,
            Self::Quota => &Quota::FORM,
            Self::Concurrency => &Concurrency::FORM,
            Self::Tiers => &Tiers::FORM,
        }
    }

    /// Reads the fields of a file. Returns `None` if they have a mistake.
    pub(crate) fn read<F: FieldReader>(self, fields: &F) -> Option<Algorithm> {
        Some(match self {
            Self::Gcra => Algorithm::Gcra(Gcra::read(fields)?),
            Self::Window => Algorithm::Window(Window::read(fields)?),
            Self::Quota => Algorithm::Quota(Quota::read(fields)?),
            Self::Concurrency => Algorithm::Concurrency(Concurrency::read(fields)?),
            Self::Tiers => Algorithm::Tiers(Tiers::read(fields)?),
        })
    }
}

impl fmt::Display for AlgorithmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Algorithm {
    /// The part of a bucket's key that stands for the algorithm.
    #[must_use]
    #[inline]
    pub const fn key(&self) -> AlgorithmKey {
        match self {
            Self::Gcra(_) => AlgorithmKey::Gcra,
            Self::Window(_) => AlgorithmKey::Window,
            Self::Quota(_) => AlgorithmKey::Quota,
            Self::Concurrency(_) => AlgorithmKey::Concurrency,
            Self::Tiers(_) => AlgorithmKey::Tiers,
        }
    }

    /// Returns the most units that can be taken at once.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.parameters().capacity()
    }

    /// Returns the parameters, which do not depend on a bucket.
    pub(crate) fn parameters(&self) -> &dyn Parameters {
        match self {
            Self::Gcra(gcra) => gcra,
            Self::Window(window) => window,
            Self::Quota(quota) => quota,
            Self::Concurrency(concurrency) => concurrency,
            Self::Tiers(tiers) => tiers,
        }
    }

    /// Checks that the algorithm can answer the question at all, whatever the state.
    #[inline]
    pub(crate) fn accepts(&self, verb: Verb, ask: &Ask) -> Result<(), AskError> {
        match self {
            Self::Gcra(gcra) => gcra.accepts(verb, ask),
            Self::Window(window) => window.accepts(verb, ask),
            Self::Quota(quota) => quota.accepts(verb, ask),
            Self::Concurrency(concurrency) => concurrency.accepts(verb, ask),
            Self::Tiers(tiers) => tiers.accepts(verb, ask),
        }
    }

    /// Returns the instant from which a bucket is as if nobody had used it, so that a store can forget it; `None` if there is no
    /// such instant. It is in microseconds since the Unix epoch.
    #[must_use]
    pub fn full_at(&self, state: &State) -> Option<u64> {
        let full_at = match (self, state) {
            (Self::Gcra(gcra), State::Gcra(tat)) => gcra.full_at(tat),
            (Self::Window(window), State::Units(units)) => window.full_at(units),
            (Self::Quota(quota), State::Quota(usage)) => quota.full_at(usage),
            (Self::Concurrency(limit), State::Units(permits)) => limit.full_at(permits),
            (Self::Tiers(tiers), State::Tiers(history)) => tiers.full_at(history),
            // Its key is that of another algorithm, so nobody reads it.
            _ => 0,
        };
        (full_at != NEVER).then_some(full_at)
    }

    /// Returns the time for which a permit counts after it was taken or renewed, if the algorithm has permits.
    pub(crate) const fn hold(&self) -> Option<Duration> {
        match self {
            Self::Concurrency(concurrency) => Some(concurrency.hold()),
            _ => None,
        }
    }

    /// Returns whether requests can wait in line.
    #[inline]
    pub(crate) const fn has_line(&self) -> bool {
        matches!(self, Self::Gcra(gcra) if !gcra.max_wait().is_zero())
    }
}

/// A state of some algorithm.
pub(crate) trait Kept: Default + PartialEq {
    fn into_state(self) -> State;

    /// Returns `None` if the state is of another algorithm, which is then only there by mistake: it has another key.
    fn of_state(state: State) -> Option<Self>;
}

impl Kept for Ticks {
    fn into_state(self) -> State {
        State::Gcra(self)
    }

    fn of_state(state: State) -> Option<Self> {
        match state {
            State::Gcra(tat) => Some(tat),
            _ => None,
        }
    }
}

impl Kept for Units {
    fn into_state(self) -> State {
        State::Units(self)
    }

    fn of_state(state: State) -> Option<Self> {
        match state {
            State::Units(units) => Some(units),
            _ => None,
        }
    }
}

impl Kept for Usage {
    fn into_state(self) -> State {
        State::Quota(self)
    }

    fn of_state(state: State) -> Option<Self> {
        match state {
            State::Quota(usage) => Some(usage),
            _ => None,
        }
    }
}

impl Kept for History {
    fn into_state(self) -> State {
        State::Tiers(self)
    }

    fn of_state(state: State) -> Option<Self> {
        match state {
            State::Tiers(history) => Some(history),
            _ => None,
        }
    }
}
