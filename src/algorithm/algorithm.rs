use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    Arithmetic, Ask, AskError, FieldReader, NEVER, Notation, Share, WrittenFields,
    concurrency::Concurrency,
    gcra::{Gcra, Ticks},
    notation::Form,
    quota::{Quota, Usage},
    tiers::{History, Tier, Tiers},
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

/// The part of a [`BucketKey`](crate::transaction::BucketKey) that stands for the algorithm: nothing for GCRA, or `~` and a
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
/// The [backend docs](crate::backend#a-custom-backend) have an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum State {
    /// The theoretical arrival time of a token bucket.
    Gcra(Ticks),
    /// The instants of the units of a window, or of the permits of a concurrency limit.
    Units(Units),
    /// What is used of a quota.
    Quota(Usage),
    /// The grants of tiers.
    Tiers(History),
}

/// The terms of a limit, which do not depend on the state of a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The most units that can be taken at once.
    pub(crate) quota: u32,
    /// The time in which they come back, if it is known.
    pub(crate) window: Option<Duration>,
    pub(crate) refill: Refill,
}

/// How units come back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refill {
    /// One after the other, `count` in each period.
    Steady { count: u32, period: Duration },
    /// Each at most this long after it was taken.
    Windowed(Duration),
    /// By a calendar, or by several windows.
    Other,
    /// When the work ends that they are for.
    Permits,
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
        match self {
            Self::Gcra(gcra) => gcra.capacity(),
            Self::Window(window) => window.capacity(),
            Self::Quota(quota) => quota.capacity(),
            Self::Concurrency(concurrency) => concurrency.capacity(),
            Self::Tiers(tiers) => tiers.capacity(),
        }
    }

    /// Checks that the algorithm can answer the question at all, whatever the state.
    #[inline]
    pub(crate) fn accepts(&self, ask: &Ask<'_>) -> Result<(), AskError> {
        match self {
            Self::Gcra(gcra) => gcra.accepts(ask),
            Self::Window(window) => window.accepts(ask),
            Self::Quota(quota) => quota.accepts(ask),
            Self::Concurrency(concurrency) => concurrency.accepts(ask),
            Self::Tiers(tiers) => tiers.accepts(ask),
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

    /// Returns the share of a process that decides on its own.
    pub(crate) fn share(&self, share: Share) -> Self {
        match self {
            Self::Gcra(gcra) => Self::Gcra(gcra.share(share)),
            Self::Window(window) => Self::Window(window.share(share)),
            Self::Quota(quota) => Self::Quota(quota.share(share)),
            Self::Concurrency(concurrency) => Self::Concurrency(concurrency.share(share)),
            Self::Tiers(tiers) => Self::Tiers(tiers.share(share)),
        }
    }

    /// Returns the most bytes that the history of a bucket takes, if it has one.
    pub(crate) fn largest_history(&self) -> usize {
        match self {
            Self::Gcra(_) | Self::Quota(_) => 0,
            Self::Window(_) | Self::Concurrency(_) => self.capacity() as usize * size_of::<u64>(),
            Self::Tiers(tiers) => tiers.largest_history(),
        }
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

    /// Returns the fields of the limit in a file.
    pub(crate) fn values(&self) -> WrittenFields {
        match self {
            Self::Gcra(gcra) => gcra.values(),
            Self::Window(window) => window.values(),
            Self::Quota(quota) => quota.values(),
            Self::Concurrency(concurrency) => concurrency.values(),
            Self::Tiers(tiers) => tiers.values(),
        }
    }

    /// Returns what clients are told of the limit.
    pub(crate) fn terms(&self) -> Terms {
        let (quota, window, refill) = match self {
            Self::Gcra(gcra) => {
                let (count, period) = (gcra.count(), gcra.period());
                let steady = Refill::Steady { count, period };
                (gcra.burst(), Some(gcra.filling_time()), steady)
            }
            Self::Window(window) => {
                let length = window.window();
                (window.limit(), Some(length), Refill::Windowed(length))
            }
            Self::Quota(quota) => {
                let first_use = quota.per().first_use_length();
                let refill = first_use.map_or(Refill::Other, Refill::Windowed);
                (quota.quota(), Some(quota.per().longest()), refill)
            }
            Self::Concurrency(limit) => (limit.limit(), None, Refill::Permits),
            Self::Tiers(tiers) => {
                // Several windows are not one.
                let mut windows = tiers.iter().map(|tier| tier.window);
                let only = windows.next().filter(|_| windows.next().is_none());
                let window = only.filter(|window| *window != Tier::FOREVER);
                (self.capacity(), window, Refill::Other)
            }
        };
        Terms {
            quota,
            window,
            refill,
        }
    }

    /// Returns mistakes that are probable but not certain, each with the number of its tier.
    pub(crate) fn doubts(&self) -> Vec<(usize, &'static str)> {
        match self {
            Self::Tiers(tiers) => tiers.doubts(),
            _ => Vec::new(),
        }
    }
}

impl From<Ticks> for State {
    fn from(tat: Ticks) -> Self {
        Self::Gcra(tat)
    }
}

impl From<Units> for State {
    fn from(units: Units) -> Self {
        Self::Units(units)
    }
}

impl From<Usage> for State {
    fn from(usage: Usage) -> Self {
        Self::Quota(usage)
    }
}

impl From<History> for State {
    fn from(history: History) -> Self {
        Self::Tiers(history)
    }
}

impl TryFrom<State> for Ticks {
    type Error = State;

    fn try_from(state: State) -> Result<Self, State> {
        match state {
            State::Gcra(tat) => Ok(tat),
            other => Err(other),
        }
    }
}

impl TryFrom<State> for Units {
    type Error = State;

    fn try_from(state: State) -> Result<Self, State> {
        match state {
            State::Units(units) => Ok(units),
            other => Err(other),
        }
    }
}

impl TryFrom<State> for Usage {
    type Error = State;

    fn try_from(state: State) -> Result<Self, State> {
        match state {
            State::Quota(usage) => Ok(usage),
            other => Err(other),
        }
    }
}

impl TryFrom<State> for History {
    type Error = State;

    fn try_from(state: State) -> Result<Self, State> {
        match state {
            State::Tiers(history) => Ok(history),
            other => Err(other),
        }
    }
}
