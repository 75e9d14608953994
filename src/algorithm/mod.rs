//! How limits count. An algorithm takes a state, an instant and a question, and returns a state and plain numbers.
//!
//! Each algorithm is a folder with its parameters, arithmetic, notation and script. It does no I/O, reads no clock, and does not
//! depend on where states are stored. To decide a batch, a store calls [`judge`](Arithmetic::judge) for each limit, then
//! [`apply`](Arithmetic::apply) for all of them or for none, and then takes the [`Figures`].

#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod algorithm;
pub(crate) mod block;
pub(crate) mod concurrency;
mod duration;
pub(crate) mod gcra;
mod limit_error;
mod notation;
mod numbers;
pub mod quota;
mod share;
mod state;
pub mod tiers;
pub(crate) mod window;

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub(crate) use self::{
    algorithm::Algorithm,
    limit_error::InvalidValue,
    notation::{FieldReader, MapForm, Notation, WrittenFields},
    share::{LeaseShare, Share},
    state::AnyState,
};
pub use self::{
    algorithm::AlgorithmKey,
    duration::{format_duration, parse_duration},
    limit_error::LimitError,
    state::{State, StateError},
};

/// The longest span of a limit, and the deepest debt of a bucket: 2⁵¹ µs, about 71 years.
pub(crate) const LONGEST_US: u64 = 1 << 51;

/// The parts of a limit that do not depend on a bucket. Their `Display` is the limit in one line.
pub(crate) trait Parameters: fmt::Display {
    /// Returns the most units that can be taken at once.
    fn capacity(&self) -> u32;

    /// Returns the share of a process that decides on its own.
    fn share(&self, share: Share) -> Algorithm;

    fn spans(&self) -> LimitSpans;

    /// Returns the most cost that one bucket admits within any span `[t, t + span)`, or `None` if there is no bound. The span is
    /// not empty.
    fn most_within(&self, span: Duration) -> Option<u128>;

    /// Returns the fields, as [`Notation::read`] reads them.
    fn values(&self) -> WrittenFields;

    /// Returns the most bytes that the history of a bucket takes, if it has one.
    fn largest_history(&self) -> usize {
        0
    }

    /// Returns mistakes that are probable but not certain, each with the number of its tier.
    fn doubts(&self) -> Vec<(usize, &'static str)> {
        Vec::new()
    }
}

/// The times that describe a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitSpans {
    /// The time in which all units come back, if it is known.
    pub(crate) window: Option<Duration>,
    /// The period of the limit, if it has one. If its periods differ, the shortest.
    pub(crate) period: Option<Duration>,
}

/// The arithmetic of one limit. Instants are in microseconds since the Unix epoch.
pub(crate) trait Arithmetic {
    /// The state that is stored for a bucket. The default is a full bucket.
    type State: Default;

    /// Checks that the algorithm can answer the question at all, whatever the state.
    fn accepts(&self, ask: &Ask) -> Result<(), AskError>;

    /// Adapts a state that was stored under an earlier version of the limit. Returns whether the state has changed.
    fn adopt(&self, _state: &mut Self::State, _now: u64) -> bool {
        false
    }

    /// Returns whether the question passes: whether the cost fits, or there is something to give back or to renew.
    fn judge(&self, ask: &Ask, state: &Self::State, now: u64) -> bool;

    /// Changes the state by a question that passes.
    fn apply(&self, ask: &Ask, state: &mut Self::State, now: u64) -> Charge;

    /// Returns the figures of a state. Those that depend on a cost are for another question with the same cost.
    fn figures(&self, ask: &Ask, state: &Self::State, now: u64) -> Figures;

    /// Returns how much of the limit is used, in thousandths.
    fn used(&self, figures: &Figures) -> u16 {
        figures.used(thousandths_of_unit(figures.limit))
    }

    /// Returns the instant from which the bucket is full, or [`NEVER`].
    fn full_at(&self, state: &Self::State) -> u64;
}

/// An instant that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// A question to a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// What happens to the units.
    pub(crate) verb: Verb,
    /// The number of units.
    pub(crate) cost: u32,
    /// The smallest acceptable grant, for tiers; for other limits, the cost.
    pub(crate) min_cost: u32,
    /// Whether the caller can wait in line, where a limit has one.
    pub(crate) waits: bool,
    /// Whether a debit takes as much as fits, where a bucket cannot hold all of it.
    pub(crate) saturates: bool,
    /// The charge that a refund or a renewal is about, if it is known; for a spend of permits, their name.
    pub(crate) charge: Option<Charge>,
}

/// The use of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// They are taken if they fit.
    Spend,
    /// They are taken in any case, even into debt.
    Debit,
    /// They are given back.
    Refund,
    /// Permits are held for longer.
    Renew,
    /// Nothing. The figures are those of the bucket as it is.
    Peek,
}

impl Ask {
    pub(crate) const fn new(verb: Verb, cost: u32) -> Self {
        Self {
            verb,
            cost,
            min_cost: cost,
            waits: false,
            saturates: false,
            charge: None,
        }
    }

    /// Sets the charge that a refund or a renewal is about.
    pub(crate) const fn of(self, charge: Option<Charge>) -> Self {
        Self { charge, ..self }
    }

    /// Rejects a renewal, and a spend of more than a limit can ever grant.
    fn accepted_up_to(&self, most: u32) -> Result<(), AskError> {
        match self.verb {
            Verb::Renew => Err(AskError::Renewal),
            Verb::Spend if self.cost > most => Err(AskError::TooCostly(most)),
            _ => Ok(()),
        }
    }
}

/// A question that an algorithm cannot answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum AskError {
    #[error("at most {0} can ever pass")]
    TooCostly(u32),
    #[error("the minimum of a group request is {0}: use at least 1, and at most its cost")]
    Minimum(u32),
    #[error("only tiers can grant a part of a cost: remove `min_cost`")]
    Part,
    #[error("only permits of a concurrency limit can be renewed")]
    Renewal,
    #[error("grants of tiers cannot be refunded")]
    RefundOfTiers,
    #[error("tiers cannot be in debt: use another mode")]
    DebitOfTiers,
    #[error("permits come back by their receipt: refund that")]
    RefundOfPermits,
    #[error("permits cannot be in debt: use another mode")]
    DebitOfPermits,
    #[error(
        "its permits come back by themselves, and their number cannot be corrected: remove `{0}`"
    )]
    Correction(&'static str),
}

/// A change of a bucket. The algorithm decides what `at` means: the TAT after the charge (GCRA), the end of the period (quota), the
/// instant of the units (window), the name of the permits, or a [grant](tiers::Grant) of tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Charge {
    pub(crate) at: u64,
    pub(crate) frac: u32,
    pub(crate) units: u32,
}

/// The figures of a bucket at an instant. Numbers of units are rounded down, waits up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// The most units that can be taken at once.
    pub(crate) limit: u32,
    /// The units that are left.
    pub(crate) remaining: u32,
    /// The time until the same cost would pass; zero if it would pass now.
    pub(crate) next_after: Wait,
    /// The time until more units are left; zero if all of them are.
    pub(crate) more_after: Wait,
    /// The time until the bucket is full.
    pub(crate) reset_after: Wait,
    /// The time that the caller has to wait in line.
    pub(crate) delay: Wait,
}

impl Figures {
    /// Returns how much of the limit is used, in thousandths. The caller gives the share of one unit, which can be computed in
    /// advance.
    #[inline]
    fn used(&self, thousandths_of_unit: u64) -> u16 {
        let units = self.limit.saturating_sub(self.remaining);
        ((u64::from(units) * thousandths_of_unit) >> SHARE_BITS) as u16
    }
}

/// The bits after the binary point of a unit's share. With this number, the share of all units still fits into 64 bits.
const SHARE_BITS: u32 = 54;

/// Returns the share of one unit in a limit, in thousandths with [`SHARE_BITS`] after the binary point, rounded up. For limits
/// below a hundred million, a multiple of it, rounded down, is the exact share of that many units.
const fn thousandths_of_unit(limit: u32) -> u64 {
    (1000_u64 << SHARE_BITS).div_ceil(limit as u64)
}

/// A time in whole microseconds, or an unknown or endless time, which compares as the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Wait(u64);

impl Wait {
    /// No time at all.
    pub(crate) const ZERO: Self = Self(0);
    /// A time that is unknown, or never ends.
    pub(crate) const UNKNOWN: Self = Self(NEVER);

    #[inline]
    pub(crate) const fn micros(us: u64) -> Self {
        Self(us)
    }

    /// Returns the time until an instant.
    #[inline]
    pub(crate) const fn until(instant: u64, now: u64) -> Self {
        match instant {
            NEVER => Self::UNKNOWN,
            instant => Self(instant.saturating_sub(now)),
        }
    }

    /// Returns the time, or `None` if it is unknown or never ends.
    #[must_use]
    pub(crate) const fn duration(self) -> Option<Duration> {
        match self.0 {
            NEVER => None,
            us => Some(Duration::from_micros(us)),
        }
    }

    /// Returns the wait that is left after some time.
    #[must_use]
    pub(crate) fn minus(self, time: Duration) -> Self {
        match self.0 {
            NEVER => self,
            us => Self(us.saturating_sub(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))),
        }
    }

    /// Returns whether it is zero.
    #[must_use]
    pub(crate) const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Returns the microseconds of a span, rounded up.
const fn ceil_micros(span: Duration) -> u128 {
    span.as_nanos().div_ceil(1000)
}

/// Returns the whole microseconds of a span, at most [`LONGEST_US`].
const fn span_us(
    field: &'static str,
    span: Duration,
    too_fine: &'static str,
    too_long: &'static str,
) -> Result<u64, InvalidValue> {
    if !span.subsec_nanos().is_multiple_of(1000) {
        return Err(InvalidValue::new(field, too_fine));
    }
    match span.as_micros() {
        us if us <= LONGEST_US as u128 => {
            Ok(span.as_secs() * 1_000_000 + span.subsec_micros() as u64)
        }
        _ => Err(InvalidValue::new(field, too_long)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_share_is_exact_to_a_thousandth() {
        for limit in [1, 2, 3, 7, 31, 32, 1000, 4096, 1_000_003, 99_999_999] {
            for used in [0, 1, limit / 3, limit / 2, limit - 1, limit] {
                let figures = Figures {
                    limit,
                    remaining: limit - used,
                    ..Figures::default()
                };
                let thousandths = u64::from(used) * 1000 / u64::from(limit);
                let share = figures.used(thousandths_of_unit(limit));
                assert_eq!(u64::from(share), thousandths, "{used} of {limit}");
            }
        }
    }
}
