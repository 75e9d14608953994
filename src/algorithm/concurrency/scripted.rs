use super::Concurrency;
use crate::algorithm::Ask;

impl Concurrency {
    /// Returns the numbers of a term, as `window.lua` reads them.
    pub(crate) fn term(&self, ask: &Ask) -> [u64; 4] {
        self.0.term(ask)
    }
}
