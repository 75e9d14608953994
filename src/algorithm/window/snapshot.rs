use super::change::Change;
use crate::algorithm::time::later;

/// The figures of a bucket with a window at a decision. Times count from that instant.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowSnapshot {
    /// The instant of the units that are charged, or the time of the decision, by the clock of the store, in µs since
    /// the epoch.
    pub(crate) at: u64,
    /// The number of units that count.
    pub(crate) used: u32,
    /// The change that the decision makes.
    pub(crate) change: Change,
    /// The time, in µs, until the same request would be granted (again).
    pub(crate) next_after: u64,
    /// The time until no unit counts.
    pub(crate) reset_after: u64,
    /// The time until there is more room, unless the window is empty.
    pub(crate) more_after: u64,
}

impl WindowSnapshot {
    /// Returns the figures `us` later, if there were no requests. At least these units have left by then.
    pub(crate) fn later(mut self, us: u64) -> Self {
        self.used -= match us {
            us if us >= self.reset_after => self.used,
            us if us >= self.more_after => self.used.min(1),
            _ => 0,
        };
        self.next_after = later(self.next_after, us);
        self.reset_after = later(self.reset_after, us);
        self.more_after = later(self.more_after, us);
        self
    }
}
