//! The limit of a history in memory, and how much of it is used.

use super::{
    algorithm::{Algorithm, each, each_as, map_each},
    state::State,
    stored::Stored,
};
use crate::{
    algorithm::{
        action::{Action, Ask},
        concurrency::Concurrency,
        counting::Counting,
        each::Each,
        gcra::Gcra,
        quota::Quota,
        tiers::Tiers,
        window::Window,
    },
    clock::Timestamp,
};

/// The limit by which a history was changed last.
pub(crate) type HistoryTerms = Each<
    <Gcra as Counting>::Terms,
    <Tiers as Counting>::Terms,
    <Window as Counting>::Terms,
    <Quota as Counting>::Terms,
    <Concurrency as Counting>::Terms,
>;

/// How much of its limit a history has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryUse {
    pub(crate) used: u32,
    pub(crate) limit: u32,
    /// The instant from which it is like an unused one; `u64::MAX` if there is none.
    pub(crate) lapses_at: u64,
    /// An instant before which the used part does not change by itself.
    pub(crate) changes_at: u64,
}

impl Algorithm {
    /// Returns whether the state of a bucket fits into a row.
    #[inline]
    pub(crate) const fn fits_row(&self) -> bool {
        each_as!(self, (By, This, _) => By::FITS_ROW)
    }

    /// Returns whether the answer to a probe has the unchanged state of the bucket.
    pub(crate) fn probes_keep_state(&self) -> bool {
        each_as!(self, (By, This, _) => By::PROBES_KEEP_STATE)
    }

    /// Returns whether a state holds the wait of the cost that was asked for only.
    pub(crate) fn waits_are_state(&self) -> bool {
        each_as!(self, (By, This, _) => By::WAITS_ARE_STATE)
    }

    /// Returns the terms of a history; `None` if the state of a bucket fits into a row.
    pub(crate) fn history_terms(&self) -> Option<HistoryTerms> {
        Some(map_each!(self, by => by.terms()?))
    }

    /// Returns the most bytes that a history takes beyond its own size, and what to lower for fewer; `None` if the state
    /// of a bucket fits into a row.
    pub(crate) fn largest_history(&self) -> Option<(usize, &'static str)> {
        each!(self, by => by.largest_history())
    }

    /// Returns whether an action changes what is stored, if it has passed and led to `state`.
    #[inline]
    pub(crate) fn changes(&self, action: Action, state: &State) -> bool {
        each_as!((self, state), (By, This, _, state) => By::changes(action, state), _ => false)
    }
}

impl HistoryTerms {
    /// Returns whether they are those of an algorithm.
    pub(crate) fn is_of(&self, algorithm: &Algorithm) -> bool {
        match (self, algorithm) {
            (Self::Tiers(own), Each::Tiers(other)) => own == other,
            (Self::Window(own), Each::Window(other)) => own == other,
            (Self::Concurrency(own), Each::Concurrency(other)) => other.terms() == Some(*own),
            _ => false,
        }
    }

    /// Returns the used part of a stored history. One that has lapsed has used nothing.
    pub(crate) fn assess(&self, stored: &Stored, now: Timestamp) -> HistoryUse {
        let now = now.as_micros();
        match (self, stored.kept()) {
            (Self::Tiers(by), Some(Each::Tiers(own))) => HistoryUse::of(by, own, now),
            (Self::Window(by), Some(Each::Window(own)))
            | (Self::Concurrency(by), Some(Each::Concurrency(own))) => HistoryUse::of(by, own, now),
            _ => HistoryUse::default(),
        }
    }

    /// Returns the instant from which a stored history is like an unused one; `u64::MAX` if there is none.
    pub(crate) fn lapses_at(&self, stored: &Stored) -> u64 {
        match (self, stored.kept()) {
            (Self::Tiers(by), Some(Each::Tiers(own))) => by.lapses_at(own),
            (Self::Window(by), Some(Each::Window(own)))
            | (Self::Concurrency(by), Some(Each::Concurrency(own))) => by.lapses_at(own),
            _ => 0,
        }
    }
}

impl HistoryUse {
    fn of<A: Counting>(by: &A, own: &A::Stored, now: u64) -> Self {
        let state = by.untouched(&Ask::FIGURES, by.view(Some(own), now), now);
        let (used, limit, wait) = by.used_part(&state);
        Self {
            used,
            limit,
            lapses_at: by.lapses_at(own),
            changes_at: now.saturating_add(wait),
        }
    }
}
