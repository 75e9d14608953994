//! Denials by tiers. The figures of one minimum don't say how long another one has to wait.

use super::{tiers::Tiers, view::TierSnapshot};
use crate::algorithm::{
    action::Ask,
    denial::{DeniedIn, Denying},
};

impl Denying for Tiers {
    type DeniedBy = Self;

    /// A grant can enter a tier, which opens the next one.
    const OUTDATED_BY_GRANTS: bool = true;

    fn denied_by(&self) -> Self {
        self.clone()
    }

    fn denied_cost(ask: &Ask<'_>) -> u32 {
        ask.min_cost
    }

    fn denies(&self, denied: &DeniedIn<Self>, ask: &Ask<'_>, now: u64) -> Option<TierSnapshot> {
        let figures = denied.state;
        let passed = denied.waits(figures.next_after, now)?;
        let holds = denied.has_wait_of(ask.min_cost, figures.next_after);
        (denied.by == *self && holds).then(|| figures.later(passed))
    }
}
