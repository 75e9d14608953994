//! The order in which histories are replaced, and the limits on which it depends.

use crate::algorithm::HistoryUse;

/// The instant of a history that never lapses. All others are below.
pub(super) const NEVER: u64 = (1 << LAPSE_BITS) - 1;

const LAPSE_BITS: u32 = 53;

/// The used part of a limit that is used up.
const WHOLE: u64 = 1024;

/// What is lost if a history is forgotten, and when that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HistoryStanding {
    /// Lower ones are replaced first: by the used part of the limit, and then by the instant at which it lapses.
    pub(super) rank: u64,
    /// An instant before which neither changes by itself, apart from some changes of tiers.
    pub(super) due: u64,
}

impl HistoryStanding {
    /// Returns the standing of a history. One that has lapsed has lost nothing, and is due.
    pub(super) fn new(history: HistoryUse) -> Self {
        let (used, limit) = (u64::from(history.used), u64::from(history.limit.max(1)));
        let part = (used * WHOLE).div_ceil(limit).min(WHOLE);
        let lapses = history.lapses_at.min(NEVER);
        Self {
            rank: part << LAPSE_BITS | lapses,
            due: history.changes_at.min(lapses),
        }
    }

    /// Returns the instant from which nothing depends on the history, or [`NEVER`].
    pub(super) fn lapses(self) -> u64 {
        self.rank & NEVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lesser_used_part_comes_first_and_then_the_sooner_lapse() {
        let now: u64 = 1_767_225_600_000_000;
        let standing = |limit, used, secs: u64| {
            let lapses_at = now + secs * 1_000_000;
            HistoryStanding::new(HistoryUse {
                used,
                limit,
                lapses_at,
                changes_at: lapses_at,
            })
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
        assert_eq!(first.lapses(), now + 9_000_000);
        assert_eq!((last.due, last.lapses()), (last.lapses(), now + 2_000_000));
    }
}
