use super::{Gcra, Ticks};
use crate::algorithm::{Ask, Verb};

/// Above each TAT that a script reads.
const NEVER_LATE: u64 = (1 << 53) - 1;

impl Gcra {
    /// Returns the numbers of a term, as `gcra.lua` reads them.
    pub(crate) fn term(&self, ask: &Ask<'_>) -> [u64; 5] {
        let cost = self.increment(ask.cost);
        let latest = match ask.verb {
            Verb::Refund if self.max_wait == 0 => Ticks::micros(NEVER_LATE),
            Verb::Debit => Ticks::micros(NEVER_LATE),
            Verb::Refund => self.tolerance,
            _ => self.latest(ask, 0),
        };
        // A debit of so much time ends at the deepest debt, and a refund at a full bucket.
        let cost_us = cost.us.min(NEVER_LATE);
        [
            self.count.into(),
            cost_us,
            cost.frac.into(),
            latest.us,
            latest.frac.into(),
        ]
    }
}
