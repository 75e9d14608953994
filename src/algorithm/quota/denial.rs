//! Denials by a quota. Within a period, apart from refunds and resets, the amount used only grows.

use super::quota::{Quota, Usage};
use crate::algorithm::{
    action::Ask,
    denial::{DeniedIn, Denying},
};

impl Denying for Quota {
    type DeniedBy = ();

    const OUTDATED_BY_GRANTS: bool = false;

    fn denied_by(&self) {}

    /// The rest of the period.
    fn denied_for(&self, usage: Usage, now: u64, cost: u32) -> u64 {
        self.wait(usage, now, cost)
    }

    fn left(&self, usage: Usage, now: u64) -> u32 {
        self.remaining(usage, now)
    }

    fn denies(&self, denied: &DeniedIn<Self>, ask: &Ask<'_>, now: u64) -> Option<Usage> {
        let passes = self.spend(denied.state, now, ask.cost);
        passes.is_none().then_some(denied.state)
    }
}
