use super::Concurrency;
use crate::algorithm::{Ask, Charge, Figures};

impl Concurrency {
    /// Returns the numbers of a question, as `concurrency.lua` reads them.
    pub(crate) fn question(&self, ask: &Ask) -> [u64; 3] {
        [self.limit.into(), ask.cost.into(), self.hold_us()]
    }

    /// Reads the number that `concurrency.lua` shows.
    pub(crate) fn shown(
        &self,
        ask: &Ask,
        units: u32,
        [used]: [u64; 1],
    ) -> Option<(Figures, Charge)> {
        let charge = Charge {
            at: ask.charge.map_or(0, |charge| charge.at),
            frac: 0,
            units,
        };
        Some((self.figures_of(ask, used.try_into().ok()?), charge))
    }
}
