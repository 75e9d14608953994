use super::{Shown, Window};
use crate::algorithm::Ask;

impl Window {
    /// Returns the numbers of a term, as `window.lua` reads them.
    pub(crate) fn term(&self, ask: &Ask<'_>) -> [u64; 4] {
        [
            self.limit.into(),
            ask.cost.into(),
            self.window,
            ask.saturates.into(),
        ]
    }
}

impl Shown {
    /// Reads the numbers that `window.lua` shows.
    pub(crate) fn read([used, leaving, first, newest]: [u64; 4]) -> Option<Self> {
        Some(Self {
            used: used.try_into().ok()?,
            leaving,
            first,
            newest,
        })
    }
}
