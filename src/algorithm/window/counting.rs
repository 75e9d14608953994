//! A window as one of the algorithms.

use std::{collections::VecDeque, time::Duration};

use super::{
    change::Change, receipt::WindowCharge, snapshot::WindowSnapshot, units::Units,
    view::WindowView, window::Window,
};
use crate::{
    algorithm::{
        action::{Action, Ask, Refund},
        algorithm_key::AlgorithmKey,
        charge::Charge,
        counting::{Counting, Judged, ShownIn},
        refill::Refill,
        ticks::Wait,
        time::{LATEST_US, read_instant},
    },
    varint::{self, Malformed},
};

/// A charge as text.
const CHARGE: u8 = 0x12;

/// The state after a change is part of the answer even if the change is not written, because it cannot be computed later.
impl Counting for Window {
    const KEY: AlgorithmKey = AlgorithmKey::Window;
    const KIND: u8 = 3;
    const FITS_ROW: bool = false;
    const CHARGE_KINDS: &'static [u8] = &[CHARGE];

    const WAITS_ARE_STATE: bool = true;

    type Stored = Units;
    type View<'a> = WindowView<'a>;
    type State = WindowSnapshot;
    type Charge = WindowCharge;
    type Terms = Self;

    #[inline]
    fn view<'a>(&self, stored: Option<&'a Units>, now: u64) -> WindowView<'a> {
        match stored {
            Some(units) => units.view(self, now),
            None => WindowView::empty(now),
        }
    }

    fn keep(
        &self,
        stored: Option<Units>,
        action: Action,
        state: WindowSnapshot,
        now: u64,
    ) -> Option<Units> {
        if !Self::changes(action, &state) {
            return stored;
        }
        let mut units = stored.unwrap_or_default();
        self.change(&mut units, action, state, now);
        Some(units).filter(|units| !units.is_empty())
    }

    #[inline]
    fn change(&self, units: &mut Units, _: Action, state: WindowSnapshot, now: u64) {
        units.change_at(self, now, state.change, state.at);
    }

    fn lapses_at(&self, units: &Units) -> u64 {
        units.lapses_at(self)
    }

    fn allocated_bytes(units: &Units) -> usize {
        units.allocated_bytes()
    }

    fn write(units: &Units, bytes: &mut Vec<u8>) {
        varint::write(bytes, units.instants().len() as u64);
        let mut later = None;
        for instant in units.instants().rev() {
            let latest = instant.min(LATEST_US);
            let back = later.map_or(latest, |later| later - instant);
            varint::write(bytes, back);
            later = Some(instant);
        }
    }

    fn read(bytes: &mut &[u8]) -> Result<Units, Malformed> {
        let len = varint::read(bytes)?;
        if len == 0 || len > u64::from(Self::MAX_UNITS) {
            return Err(Malformed::Impossible(
                "no units of a window, or more than 4096",
            ));
        }
        let mut instant = read_instant(bytes)?;
        let mut instants = VecDeque::from([instant]);
        for _ in 1..len {
            let before = instant.checked_sub(varint::read(bytes)?);
            instant = before.ok_or(Malformed::Impossible("a time before 1970"))?;
            instants.push_front(instant);
        }
        instants.make_contiguous();
        Ok(Units::from_instants(instants))
    }

    fn changes(action: Action, state: &WindowSnapshot) -> bool {
        action.writes() && state.change.units() > 0
    }

    fn terms(&self) -> Option<Self> {
        Some(*self)
    }

    fn largest_history(&self) -> Option<(usize, &'static str)> {
        let bytes = Units::allocated_bytes_of(self.limit());
        Some((bytes, "limit of its window"))
    }

    fn used_part(&self, state: &WindowSnapshot) -> (u32, u32, u64) {
        (state.used, self.limit(), state.more_after.max(1))
    }

    #[inline]
    fn judge(&self, ask: &Ask<'_>, view: WindowView<'_>, _: u64) -> Judged<WindowSnapshot> {
        self.judged(ask, view, |view| given_back(ask, view))
    }

    fn untouched(&self, ask: &Ask<'_>, view: WindowView<'_>, _: u64) -> WindowSnapshot {
        view.figures(self, ask.cost, Change::Nothing)
    }

    fn changed_units(state: &WindowSnapshot) -> Option<u32> {
        Some(state.change.units())
    }

    fn charge(shown: &ShownIn<Self>) -> Option<(WindowCharge, u32)> {
        Some(WindowCharge::of(&shown.state))
    }

    fn remaining(shown: &ShownIn<Self>) -> u32 {
        shown.by.limit().saturating_sub(shown.state.used)
    }

    fn wait(shown: &ShownIn<Self>) -> Wait {
        Wait::micros(shown.state.next_after)
    }

    fn reset_after(shown: &ShownIn<Self>) -> Wait {
        Wait::micros(shown.state.reset_after)
    }

    fn next_room(shown: &ShownIn<Self>) -> (u32, Option<Wait>) {
        let more = Some(shown.state.more_after).filter(|more| *more > 0);
        (Counting::remaining(shown), more.map(Wait::micros))
    }

    fn allowance(shown: &ShownIn<Self>) -> (u32, Duration) {
        (shown.by.limit(), shown.by.window())
    }

    fn refill(shown: &ShownIn<Self>) -> Option<Refill> {
        let us = shown.by.window().as_micros();
        u64::try_from(us).ok().map(|us| Refill::Windowed { us })
    }

    fn later(&self, state: WindowSnapshot, us: u64) -> WindowSnapshot {
        state.later(us)
    }

    fn charge_numbers(charge: &WindowCharge) -> (u8, Vec<u64>) {
        (CHARGE, vec![charge.at])
    }

    fn read_charge(_: u8, bytes: &mut &[u8]) -> Option<WindowCharge> {
        WindowCharge::read(bytes)
    }
}

impl WindowCharge {
    /// Returns the charge that has led to a state, and its units.
    pub(in crate::algorithm) fn of(state: &WindowSnapshot) -> (Self, u32) {
        (Self { at: state.at }, state.change.units())
    }

    pub(in crate::algorithm) fn read(bytes: &mut &[u8]) -> Option<Self> {
        let at = varint::read(bytes).ok()?;
        Some(Self { at })
    }
}

impl Window {
    /// Judges an action, whose refund is the change that `give_back` returns.
    #[inline]
    pub(in crate::algorithm) fn judged(
        &self,
        ask: &Ask<'_>,
        view: WindowView<'_>,
        give_back: impl FnOnce(&WindowView<'_>) -> Change,
    ) -> Judged<WindowSnapshot> {
        let cost = ask.cost;
        let is_debit = matches!(ask.action, Action::Debit | Action::ProbeDebit);
        if ask.ago_us > 0 && is_debit {
            let at = view.ago(ask.ago_us);
            let change = view.debit_at(self, at, cost);
            return Judged::new(view.figures_at(self, cost, change, at), true);
        }
        let change = match ask.action {
            Action::Probe | Action::Spend => view.spend(self, cost),
            Action::ProbeDebit | Action::Debit if ask.saturates => {
                Some(view.debit_saturating(cost))
            }
            Action::ProbeDebit | Action::Debit => view.debit(cost),
            Action::Refund => Some(give_back(&view)).filter(|change| change.units() > 0),
            Action::Renew | Action::Keep | Action::Reset => None,
        };
        let figures = match change {
            Some(change) if !ask.is_shown => view.after(change),
            change => view.figures(self, cost, change.unwrap_or_default()),
        };
        Judged::new(figures, change.is_some())
    }
}

/// Returns the change of a refund.
fn given_back(ask: &Ask<'_>, view: &WindowView<'_>) -> Change {
    match ask.refund {
        Refund::Cost => view.refund(ask.cost),
        Refund::Charge(Charge::Window(charge)) => view.refund_at(charge.at, ask.cost),
        Refund::Charge(_) | Refund::Nothing => Change::Nothing,
    }
}
