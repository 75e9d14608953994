//! The order in which histories are replaced, and the limits on which it depends.

use crate::{
    clock::Timestamp,
    decision::{State, Stored},
    tiers::{Grant, TierSnapshot, Tiers},
    transaction::Algorithm,
    window::{Change, Window, WindowSnapshot},
};

/// The instant of a history that never lapses. All others are below.
pub(super) const NEVER: u64 = (1 << LAPSE_BITS) - 1;

const LAPSE_BITS: u32 = 53;

/// The used part of a limit that is used up.
const WHOLE: u64 = 1024;

/// The limit by which a history was changed last.
#[derive(Debug)]
pub(super) enum HistoryTerms {
    Window(Window),
    Tiers(Tiers),
}

/// What is lost if a history is forgotten, and when that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HistoryStanding {
    /// Lower ones are replaced first: by the used part of the limit, and then by the instant at which it lapses.
    pub(super) rank: u64,
    /// An instant before which neither changes by itself, apart from some changes of tiers.
    pub(super) due: u64,
}

impl HistoryTerms {
    /// Returns the terms of a window or of tiers.
    pub(super) fn new(algorithm: &Algorithm) -> Option<Self> {
        match algorithm {
            Algorithm::Window(window) => Some(Self::Window(*window)),
            Algorithm::Tiers(tiers) => Some(Self::Tiers(tiers.clone())),
            Algorithm::Gcra(_) | Algorithm::Quota(_) => None,
        }
    }

    /// Returns whether they are those of an algorithm.
    pub(super) fn is_of(&self, algorithm: &Algorithm) -> bool {
        match (self, algorithm) {
            (Self::Window(own), Algorithm::Window(other)) => own == other,
            (Self::Tiers(own), Algorithm::Tiers(other)) => own == other,
            _ => false,
        }
    }

    /// Returns the standing of a stored history. One that has lapsed has lost nothing, and is due.
    pub(super) fn assess(&self, stored: &Stored, now: Timestamp) -> HistoryStanding {
        let us = now.as_micros();
        match (self, stored) {
            (Self::Window(window), Stored::Window(units)) => {
                let view = units.view(window, us);
                let figures = view.figures(window, 1, Change::Nothing);
                of_window(window, &figures, units.lapses_at(window), us)
            }
            (Self::Tiers(tiers), Stored::Tiers(history)) => {
                let figures = history.view(tiers, us).figures(tiers, 1, Grant::default());
                of_tiers(tiers, &figures, history.lapses_at(tiers), us)
            }
            _ => HistoryStanding { rank: 0, due: 0 },
        }
    }

    /// Returns the standing of a history that was just stored, with the state after the change.
    pub(super) fn assess_changed(
        &self,
        stored: &Stored,
        state: &State,
        now: Timestamp,
    ) -> HistoryStanding {
        let us = now.as_micros();
        match (self, stored, state) {
            (Self::Window(window), Stored::Window(units), State::Window(figures)) => {
                of_window(window, figures, units.lapses_at(window), us)
            }
            (Self::Tiers(tiers), Stored::Tiers(history), State::Tiers(figures)) => {
                of_tiers(tiers, figures, history.lapses_at(tiers), us)
            }
            _ => self.assess(stored, now),
        }
    }
}

impl HistoryStanding {
    fn new(used: u32, limit: u32, lapses: u64, changes: u64) -> Self {
        let (used, limit) = (u64::from(used), u64::from(limit.max(1)));
        let part = (used * WHOLE).div_ceil(limit).min(WHOLE);
        let lapses = lapses.min(NEVER);
        Self {
            rank: part << LAPSE_BITS | lapses,
            due: changes.min(lapses),
        }
    }

    /// Returns the instant from which nothing depends on the history, or [`NEVER`].
    pub(super) fn lapses(self) -> u64 {
        self.rank & NEVER
    }
}

fn of_window(window: &Window, figures: &WindowSnapshot, lapses: u64, now: u64) -> HistoryStanding {
    let more = now.saturating_add(figures.more_after.max(1));
    HistoryStanding::new(figures.used, window.limit(), lapses, more)
}

/// The used part is what could not be granted now. It only changes when a tier has more room, begins or ends; the first
/// such instant is not always known.
fn of_tiers(tiers: &Tiers, figures: &TierSnapshot, lapses: u64, now: u64) -> HistoryStanding {
    let most = tiers.max_units();
    let waits = [figures.turn_after, figures.next_after];
    let wait = waits.into_iter().filter(|wait| *wait > 0).min();
    let changes = now.saturating_add(wait.unwrap_or(u64::MAX));
    let used = most.saturating_sub(figures.remaining);
    HistoryStanding::new(used, most, lapses, changes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::window::Units;

    #[test]
    fn lesser_used_part_comes_first_and_then_the_sooner_lapse() {
        let second = Duration::from_secs(1);
        let now = Timestamp::from_micros(1_767_225_600_000_000);
        let standing = |limit, used, secs| {
            let window = Window::new(limit, second * secs).unwrap();
            let mut units = Units::default();
            assert!(window.spend(&mut units, now.as_micros(), used));
            HistoryTerms::Window(window).assess(&Stored::Window(units), now)
        };
        let in_order = [
            standing(4096, 1, 9),
            standing(100, 1, 1),
            standing(100, 1, 2),
            standing(5, 1, 1),
            standing(4096, 1024, 1),
            standing(5, 4, 9),
            standing(5, 5, 1),
            standing(1, 1, 2),
        ];
        assert!(
            in_order.is_sorted_by_key(|standing| standing.rank),
            "{in_order:?}"
        );
        let [first, .., last] = in_order;
        assert_eq!(first.lapses(), now.as_micros() + 9_000_000);
        assert_eq!(
            (last.due, last.lapses()),
            (last.lapses(), now.as_micros() + 2_000_000)
        );
    }
}
