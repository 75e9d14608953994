//! Denials by a window. The figures of one cost don't say how long another cost has to wait.

use super::{snapshot::WindowSnapshot, window::Window};
use crate::algorithm::{
    action::Ask,
    denial::{DeniedIn, Denying},
};

impl Denying for Window {
    type DeniedBy = Self;

    /// After a grant, less is left than a denial before it would say.
    const OUTDATED_BY_GRANTS: bool = true;

    fn denied_by(&self) -> Self {
        *self
    }

    fn denied_cost(ask: &Ask<'_>) -> u32 {
        ask.min_cost
    }

    fn denies(&self, denied: &DeniedIn<Self>, ask: &Ask<'_>, now: u64) -> Option<WindowSnapshot> {
        let figures = denied.state;
        // If all units leave at once, then any cost has to wait for that.
        let is_same = figures.next_after == figures.reset_after
            && ask.cost > denied.cost
            && ask.cost <= self.limit();
        let holds = is_same || denied.has_wait_of(ask.cost, figures.next_after);
        let passed = denied.waits(figures.next_after, now)?;
        (denied.by == *self && holds).then(|| figures.later(passed))
    }
}
