use super::{Window, WindowSummary};
use crate::algorithm::{Ask, Charge};

impl Window {
    /// Returns the numbers of a question, as `window.lua` reads them.
    pub(crate) fn question(&self, ask: &Ask) -> [u64; 4] {
        [
            self.limit.into(),
            ask.cost.into(),
            self.window,
            ask.saturates.into(),
        ]
    }
}

impl WindowSummary {
    /// Reads the numbers that `window.lua` shows. Returns them with the charge of these units.
    pub(crate) fn read(
        now: u64,
        units: u32,
        [used, leaving, first, newest]: [u64; 4],
    ) -> Option<(Self, Charge)> {
        let shown = Self {
            used: used.try_into().ok()?,
            leaving,
            first,
            newest,
        };
        let charge = Charge {
            at: now,
            frac: 0,
            units,
        };
        Some((shown, charge))
    }
}
