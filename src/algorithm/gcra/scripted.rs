use super::{Gcra, Ticks};
use crate::algorithm::{Arithmetic, Ask, Charge, Figures, Verb};

/// An instant above each TAT that a script reads, so that every refund passes.
const NEVER_LATE: u64 = (1 << 53) - 1;

impl Gcra {
    /// Returns the numbers of a question, as `gcra.lua` reads them.
    pub(crate) fn question(&self, ask: &Ask) -> [u64; 5] {
        let cost = self.increment(ask.cost);
        let latest = match ask.verb {
            Verb::Refund if self.max_wait == 0 => Ticks::micros(NEVER_LATE),
            Verb::Debit => Ticks::micros(NEVER_LATE),
            Verb::Refund => self.tolerance,
            _ => self.latest(ask, 0),
        };
        // A debit of that much time ends at the deepest debt, and a refund ends at a full bucket.
        let cost_us = cost.us.min(NEVER_LATE);
        [
            self.count.into(),
            cost_us,
            cost.frac.into(),
            latest.us,
            latest.frac.into(),
        ]
    }

    /// Returns the figures for the TAT that `gcra.lua` shows, and the charge if the script has made one.
    pub(crate) fn shown(
        &self,
        ask: &Ask,
        now: u64,
        charges: u32,
        [us, frac]: [u64; 2],
    ) -> Option<(Figures, Charge)> {
        let frac = frac.try_into().ok()?;
        let charge = Charge {
            at: us,
            frac,
            units: charges * ask.cost,
        };
        Some((self.figures(ask, &Ticks { us, frac }, now), charge))
    }
}
