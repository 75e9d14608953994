//! A concurrency limit as one of the algorithms: a window whose units can be renewed. Its waits are not known.

use std::time::Duration;

use super::concurrency::Concurrency;
use crate::{
    algorithm::{
        action::{Action, Ask, Refund},
        algorithm_key::AlgorithmKey,
        charge::Charge,
        counting::{Counting, Judged, ShownIn},
        ticks::Wait,
        time::NEVER,
        window::{Change, Units, Window, WindowCharge, WindowSnapshot, WindowView},
    },
    varint::Malformed,
};

/// A charge as text.
const CHARGE: u8 = 0x15;

impl Counting for Concurrency {
    const KEY: AlgorithmKey = AlgorithmKey::Concurrency;
    const KIND: u8 = 5;
    const FITS_ROW: bool = false;
    const CHARGE_KINDS: &'static [u8] = &[CHARGE];

    type Stored = Units;
    type View<'a> = WindowView<'a>;
    type State = WindowSnapshot;
    type Charge = WindowCharge;
    type Terms = Window;

    #[inline]
    fn view<'a>(&self, stored: Option<&'a Units>, now: u64) -> WindowView<'a> {
        self.permits.view(stored, now)
    }

    fn keep(
        &self,
        stored: Option<Units>,
        action: Action,
        state: WindowSnapshot,
        now: u64,
    ) -> Option<Units> {
        self.permits.keep(stored, action, state, now)
    }

    #[inline]
    fn change(&self, permits: &mut Units, action: Action, state: WindowSnapshot, now: u64) {
        self.permits.change(permits, action, state, now);
    }

    fn lapses_at(&self, permits: &Units) -> u64 {
        self.permits.lapses_at(permits)
    }

    fn allocated_bytes(permits: &Units) -> usize {
        Window::allocated_bytes(permits)
    }

    fn write(permits: &Units, bytes: &mut Vec<u8>) {
        Window::write(permits, bytes);
    }

    fn read(bytes: &mut &[u8]) -> Result<Units, Malformed> {
        Window::read(bytes)
    }

    fn changes(action: Action, state: &WindowSnapshot) -> bool {
        Window::changes(action, state)
    }

    fn terms(&self) -> Option<Window> {
        Some(self.permits)
    }

    fn largest_history(&self) -> Option<(usize, &'static str)> {
        let (bytes, _) = self.permits.largest_history()?;
        Some((bytes, "number of permits at once"))
    }

    fn used_part(&self, state: &WindowSnapshot) -> (u32, u32, u64) {
        self.permits.used_part(state)
    }

    #[inline]
    fn judge(&self, ask: &Ask<'_>, view: WindowView<'_>, _: u64) -> Judged<WindowSnapshot> {
        if ask.action == Action::Renew {
            let renewed = charged_at(ask).and_then(|at| view.renew_at(at, ask.cost));
            let figures = view.figures(&self.permits, ask.cost, renewed.unwrap_or_default());
            return Judged::new(figures, renewed.is_some());
        }
        self.permits
            .judged(ask, view, |view| match charged_at(ask) {
                Some(at) => view.refund_at(at, ask.cost),
                None => Change::Nothing,
            })
    }

    fn untouched(&self, ask: &Ask<'_>, view: WindowView<'_>, now: u64) -> WindowSnapshot {
        self.permits.untouched(ask, view, now)
    }

    fn changed_units(state: &WindowSnapshot) -> Option<u32> {
        Window::changed_units(state)
    }

    fn charge(shown: &ShownIn<Self>) -> Option<(WindowCharge, u32)> {
        Some(WindowCharge::of(&shown.state))
    }

    fn remaining(shown: &ShownIn<Self>) -> u32 {
        shown.by.limit().saturating_sub(shown.state.used)
    }

    fn wait(shown: &ShownIn<Self>) -> Wait {
        let used = shown.state.used.saturating_add(shown.cost);
        unknown_unless(used <= shown.by.limit())
    }

    fn reset_after(shown: &ShownIn<Self>) -> Wait {
        unknown_unless(shown.state.used == 0)
    }

    fn next_room(shown: &ShownIn<Self>) -> (u32, Option<Wait>) {
        let is_used = shown.state.used > 0;
        (
            Counting::remaining(shown),
            is_used.then(|| unknown_unless(false)),
        )
    }

    /// Permits come back at no known time.
    fn allowance(shown: &ShownIn<Self>) -> (u32, Duration) {
        (shown.by.limit(), unknown_unless(false).ceil())
    }

    fn has_line(&self) -> bool {
        !self.max_wait().is_zero()
    }

    #[cfg(feature = "tokio")]
    fn expires_after(shown: &ShownIn<Self>) -> Wait {
        Wait::micros(shown.state.next_after)
    }

    fn charge_numbers(charge: &WindowCharge) -> (u8, Vec<u64>) {
        (CHARGE, vec![charge.at])
    }

    fn read_charge(_: u8, bytes: &mut &[u8]) -> Option<WindowCharge> {
        WindowCharge::read(bytes)
    }
}

/// Returns the instant of the permits in a receipt.
pub(super) fn charged_at(ask: &Ask<'_>) -> Option<u64> {
    match ask.refund {
        Refund::Charge(Charge::Concurrency(charge)) => Some(charge.at),
        Refund::Charge(_) | Refund::Cost | Refund::Nothing => None,
    }
}

/// Returns no wait, or one that is not known, which counts as the longest.
fn unknown_unless(is_over: bool) -> Wait {
    Wait::micros(if is_over { 0 } else { NEVER })
}
