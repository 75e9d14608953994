//! Denials by GCRA. Apart from refunds and resets, a TAT only grows.

use super::gcra::Gcra;
use crate::algorithm::{
    action::Ask,
    denial::{DeniedIn, Denying},
    ticks::Tat,
};

impl Denying for Gcra {
    type DeniedBy = ();

    const OUTDATED_BY_GRANTS: bool = false;

    fn denied_by(&self) {}

    fn left(&self, tat: Tat, now: u64) -> u32 {
        self.remaining(tat, now)
    }

    fn denies(&self, denied: &DeniedIn<Self>, ask: &Ask<'_>, now: u64) -> Option<Tat> {
        let line = self.line_us(ask.joins_line);
        let passes = self.spend_within(denied.state, now, ask.cost, line);
        passes.is_none().then_some(denied.state)
    }
}
