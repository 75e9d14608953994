//! Tiers as one of the algorithms.

use std::{convert::Infallible, time::Duration};

use super::{
    grant::Grant,
    history::History,
    tiers::Tiers,
    view::{TierSnapshot, TierView},
};
use crate::{
    algorithm::{
        action::{Action, Ask},
        algorithm_key::AlgorithmKey,
        counting::{Counting, Judged, ShownIn},
        ticks::Wait,
        time::FOREVER,
    },
    varint::Malformed,
};

/// The state after a grant is part of the answer even if the grant is not written, because it cannot be computed later. A
/// grant cannot be undone.
impl Counting for Tiers {
    const KEY: AlgorithmKey = AlgorithmKey::Tiers;
    const KIND: u8 = 2;
    const FITS_ROW: bool = false;
    const CHARGE_KINDS: &'static [u8] = &[];
    const PROBES_KEEP_STATE: bool = false;

    type Stored = History;
    type View<'a> = TierView<'a>;
    type State = TierSnapshot;
    type Charge = Infallible;
    type Terms = Self;

    #[inline]
    fn view<'a>(&self, stored: Option<&'a History>, now: u64) -> TierView<'a> {
        match stored {
            Some(history) => TierView::of(history, now),
            None => TierView::unused(now),
        }
    }

    fn keep(
        &self,
        stored: Option<History>,
        action: Action,
        state: TierSnapshot,
        now: u64,
    ) -> Option<History> {
        if !Self::changes(action, &state) {
            return stored;
        }
        let mut history = stored.unwrap_or_default();
        self.change(&mut history, action, state, now);
        Some(history)
    }

    #[inline]
    fn change(&self, history: &mut History, _: Action, state: TierSnapshot, now: u64) {
        history.take(self, state.grant, now);
    }

    fn lapses_at(&self, history: &History) -> u64 {
        history.lapses_at(self)
    }

    fn allocated_bytes(history: &History) -> usize {
        history.allocated_bytes()
    }

    fn write(history: &History, bytes: &mut Vec<u8>) {
        history.write_to(bytes);
    }

    fn read(bytes: &mut &[u8]) -> Result<History, Malformed> {
        History::read_from(bytes)
    }

    fn changes(action: Action, state: &TierSnapshot) -> bool {
        action == Action::Spend && state.grant.units() > 0
    }

    fn terms(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn largest_history(&self) -> Option<(usize, &'static str)> {
        Some((self.max_allocated_bytes(), "limits of its tiers"))
    }

    /// The used part is what could not be granted now. It only changes when a tier has more room, begins or ends; the first
    /// such instant is not always known.
    fn used_part(&self, state: &TierSnapshot) -> (u32, u32, u64) {
        let most = self.max_units();
        let waits = [state.turn_after, state.next_after];
        let wait = waits.into_iter().filter(|wait| *wait > 0).min();
        (
            most.saturating_sub(state.remaining),
            most,
            wait.unwrap_or(u64::MAX),
        )
    }

    #[inline]
    fn judge(&self, ask: &Ask<'_>, view: TierView<'_>, _: u64) -> Judged<TierSnapshot> {
        let asks = matches!(ask.action, Action::Probe | Action::Spend);
        let least = ask.min_cost.max(1);
        let mut windows = view.windows(self);
        let grant = windows.plan(self, least, ask.cost).filter(|_| asks);
        if let Some(grant) = grant {
            if !ask.is_shown {
                return Judged::new(TierSnapshot::granted(grant), true);
            }
            windows.take(self, grant);
        }
        let figures = windows.figures(self, least, grant.unwrap_or_default());
        Judged::new(figures, grant.is_some())
    }

    fn untouched(&self, ask: &Ask<'_>, view: TierView<'_>, _: u64) -> TierSnapshot {
        let windows = view.windows(self);
        windows.figures(self, ask.min_cost.max(1), Grant::default())
    }

    fn changed_units(state: &TierSnapshot) -> Option<u32> {
        Some(state.grant.units())
    }

    fn charge(_: &ShownIn<Self>) -> Option<(Infallible, u32)> {
        None
    }

    fn remaining(shown: &ShownIn<Self>) -> u32 {
        shown.state.remaining
    }

    fn wait(shown: &ShownIn<Self>) -> Wait {
        Wait::micros(shown.state.next_after)
    }

    fn reset_after(shown: &ShownIn<Self>) -> Wait {
        Wait::micros(shown.state.reset_after)
    }

    /// The room in the tier in force.
    fn next_room(shown: &ShownIn<Self>) -> (u32, Option<Wait>) {
        let turn = Some(shown.state.turn_after).filter(|turn| *turn > 0);
        (shown.state.free, turn.map(Wait::micros))
    }

    fn allowance(shown: &ShownIn<Self>) -> (u32, Duration) {
        let mut tiers = shown.by.iter();
        let tier = tiers.nth(shown.state.in_force());
        tier.map_or((0, FOREVER), |tier| (tier.limit, tier.window))
    }

    #[inline]
    fn is_usual(shown: &ShownIn<Self>) -> bool {
        shown.state.in_force() == 0
    }

    fn later(&self, state: TierSnapshot, us: u64) -> TierSnapshot {
        state.later(us)
    }

    fn charge_numbers(charge: &Infallible) -> (u8, Vec<u64>) {
        match *charge {}
    }

    fn read_charge(_: u8, _: &mut &[u8]) -> Option<Infallible> {
        None
    }
}
