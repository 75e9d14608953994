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
